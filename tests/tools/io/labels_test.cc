// Label files: lines in blocks.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "attend/io.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {
namespace {

using Block = std::vector<std::string>;
using Blocks = std::vector<Block>;

Blocks labels_of(const std::string& text) {
  const TempDir dir;
  return io::load_labels(dir.write("labels.txt", text));
}

std::string error_of_labels(const std::string& text) {
  const TempDir dir;
  const std::string path = dir.write("labels.txt", text);
  return error_in(dir, [&] { io::load_labels(path); });
}

TEST_CASE("labels: blocks separated by blank lines") {
  CHECK(labels_of("").empty());
  CHECK(labels_of("\n\n\n").empty());
  CHECK(labels_of("a") == Blocks{Block{"a"}});
  CHECK(labels_of("a\nb\n") == Blocks{Block{"a", "b"}});
  CHECK(labels_of("a\n\nb\nc") == Blocks{Block{"a"}, Block{"b", "c"}});
  CHECK(labels_of("\n\na\n\n\n\nb\n\n") == Blocks{Block{"a"}, Block{"b"}});
}

TEST_CASE("labels: a space is a label, line ends of both kinds, byte order mark") {
  CHECK(labels_of(" \n\t\n") == Blocks{Block{" ", "\t"}});
  CHECK(labels_of("a\r\n\r\nb\r\n") == Blocks{Block{"a"}, Block{"b"}});
  CHECK(labels_of("a\rb\n") == Blocks{Block{"a\rb"}});
  CHECK(labels_of("\xEF\xBB\xBF"
                  "a\n") == Blocks{Block{"a"}});
  CHECK(labels_of("Gr\xC3\xBC\xC3\x9F"
                  "e\n\xE6\x97\xA5\n\xF0\x9F\x98\x80") == Blocks{Block{"Gr\xC3\xBC\xC3\x9F"
                                                                       "e",
                                                                       "\xE6\x97\xA5", "\xF0\x9F\x98\x80"}});
}

TEST_CASE("labels: what is not text") {
  CHECK(error_of_labels(std::string("a\nb\0c\n", 6)) == "labels.txt: line 2: has a NUL byte, expected text");
  CHECK(error_of_labels("a\n\nok\xff\n") == "labels.txt: line 3: is not UTF-8 at byte 3 of the line: '\\xff'");
  for (const char* bad : {"\x80", "\xC3", "\xC0\xAF", "\xC1\x81", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF0\x80\x80\xAF",
                          "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xE6\x97", "\xFE"}) {
    CHECK(error_of_labels(bad).starts_with("labels.txt: line 1: is not UTF-8 at byte 1"));
  }
  CHECK(labels_of("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF").size() == 1);  // the neighbours of what is forbidden
}

TEST_CASE("labels: no file") {
  const TempDir dir;
  std::filesystem::create_directory(dir.path("d"));
  CHECK(error_in(dir, [&] { io::load_labels(dir.path("none")); }) == "none: cannot open: No such file or directory");
  CHECK(error_in(dir, [&] { io::load_labels(dir.path("d")); }) == "d: is a directory, expected a regular file");
}

}  // namespace
}  // namespace attend::tests
