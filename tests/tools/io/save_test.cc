// Writing: bytes as numpy writes them, round trips, and files that appear whole or not at all.
#include <doctest/doctest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "attend/io.h"
#include "tests/tools/io/build_files.h"
#include "tests/tools/io/ordinary_user.h"

namespace attend::tests {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using Sizes = std::vector<std::int64_t>;
using View = TensorView<const float>;

const std::vector<float> kValues{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};

Tensor through_npy(View view) {
  const TempDir dir;
  io::save_npy(dir.path("x.npy"), view);
  CHECK(dir.names() == Names{"x.npy"});
  return io::load_tensor(dir.path("x.npy"));
}

Tensor through_npz(View view) {
  const TempDir dir;
  io::save_npz(dir.path("a.npz"), {{"before", View(kValues.data(), {2})}, {"x", view}});
  CHECK(dir.names() == Names{"a.npz"});
  return io::load_tensor(dir.path("a.npz") + ":x");
}

void check_round_trip(View view, const std::vector<float>& expected) {
  const Sizes sizes(view.sizes().begin(), view.sizes().end());
  for (const Tensor& tensor : {through_npy(view), through_npz(view)}) {
    CHECK(tensor.sizes == sizes);
    CHECK(tensor.data == expected);
  }
}

TEST_CASE("save: the bytes that numpy writes") {
  const TempDir dir;
  io::save_npy(dir.path("x.npy"), View(kValues.data(), {2, 3}));
  CHECK(dir.read("x.npy") == numpy_npy());
  io::save_npy(dir.path("x.npy"), View(kValues.data(), {4}));
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }";
  CHECK(dir.read("x.npy") == npy_file(dict + std::string(117 - dict.size(), ' ') + "\n", f32_bytes({0, 1, 2, 3})));
}

TEST_CASE("save: a header is padded to 64 bytes whatever the shape") {
  const TempDir dir;
  for (const Sizes& sizes : {Sizes{0}, Sizes{1, 0}, Sizes{0, 100, 100}, Sizes{0, 1000000007, 12345678, 1}}) {
    io::save_npy(dir.path("x.npy"), View(nullptr, std::span<const std::int64_t>(sizes)));
    const std::string bytes = dir.read("x.npy");
    CHECK(bytes.size() % 64 == 0);
    CHECK(bytes.back() == '\n');
    CHECK(io::load_sizes(dir.path("x.npy")) == sizes);
  }
}

TEST_CASE("save: round trips over ranks and strides") {
  check_round_trip(View(kValues.data(), {24}), kValues);
  check_round_trip(View(kValues.data(), {2, 12}), kValues);
  check_round_trip(View(kValues.data(), {2, 3, 4}), kValues);
  check_round_trip(View(kValues.data(), {1, 2, 3, 4}), kValues);
  check_round_trip(View(kValues.data(), {2, 2}, {6, 2}), {0, 2, 6, 8});              // gaps
  check_round_trip(View(kValues.data() + 8, {2, 3}, {-6, -1}), {8, 7, 6, 2, 1, 0});  // backwards
  check_round_trip(View(kValues.data(), {3, 2}, {0, 1}), {0, 1, 0, 1, 0, 1});        // one row, three times
  check_round_trip(View(kValues.data(), {2, 2, 2}, {1, 0, 4}), {0, 4, 0, 4, 1, 5, 1, 5});
  check_round_trip(View(kValues.data(), {3, 0, 2}), {});
  check_round_trip(View(nullptr, {0}), {});
}

TEST_CASE("save: large tensors, more than one buffer") {
  std::vector<float> values(40'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.25F;
  check_round_trip(View(values.data(), {200, 200}), values);
}

TEST_CASE("save: npz is an archive whose every byte is known") {
  const TempDir dir;
  io::save_npz(dir.path("a.npz"), {{"x", View(kValues.data(), {2, 3})}, {"\xC3\xA9", View(kValues.data(), {1})}});
  const std::string bytes = dir.read("a.npz");
  ZipPart part = stored_part("x.npy", numpy_npy());
  part.zip64 = true;
  std::string local = zip_local(part);
  local[4] = 45;                         // version needed: zip64
  local.replace(10, 4, le32(0x210000));  // 1980-01-01
  CHECK(bytes.starts_with(local + part.data + "PK\x03\x04"));
  CHECK(bytes.find("\xC3\xA9.npy") != std::string::npos);
  CHECK(io::load(dir.path("a.npz")).names() == Names{"x", "\xC3\xA9"});
  io::save_npz(dir.path("b.npz"), {{"x", View(kValues.data(), {2, 3})}, {"\xC3\xA9", View(kValues.data(), {1})}});
  CHECK(dir.read("b.npz") == bytes);  // no clock in it
  io::save_npz(dir.path("none.npz"), {});
  CHECK(error_in(dir, [&] { io::load(dir.path("none.npz")); }) == "none.npz: no tensor; there are: none");
}

TEST_CASE("save: what cannot be written") {
  const TempDir dir;
  const View view(kValues.data(), {1});
  const auto npy = [&](View v) { return error_in(dir, [&] { io::save_npy(dir.path("x.npy"), v); }); };
  const auto npz = [&](const std::string& name) {
    return error_in(dir, [&] { io::save_npz(dir.path("a.npz"), {{name, view}, {"b", view}}); });
  };
  CHECK(npy(View()) == "x.npy: cannot write: the view is empty, expected 1 to 4 axes");
  CHECK(npy(View(nullptr, {2})) == "x.npy: cannot write: the view has sizes but no data");
  CHECK(npz("b") == "a.npz: tensor 'b': cannot write: two tensors have this name");
  CHECK(npz("") == "a.npz: tensor '': cannot write: name of 0 bytes, expected 1 to 65531");
  CHECK(npz(std::string(65532, 'n')).ends_with("cannot write: name of 65532 bytes, expected 1 to 65531"));
  CHECK(npz("\xff") == "a.npz: tensor '\\xff': cannot write: the name is not UTF-8 without NUL");
  CHECK(npz(std::string(65531, 'n')) == "no error");
  CHECK(io::load(dir.path("a.npz")).contains(std::string(65531, 'n')));
  CHECK(dir.names() == Names{"a.npz"});
}

TEST_CASE("save: goals that are no files") {
  const TempDir dir;
  fs::create_directory(dir.path("d"));
  REQUIRE(::mkfifo(dir.path("f").c_str(), 0600) == 0);
  fs::create_symlink("loop", dir.path("loop"));
  const auto error = [&](const std::string& path) { return error_in(dir, [&] { io::save_bytes(path, "x"); }); };
  CHECK(error(dir.path("d")) == "d: cannot write: is a directory, expected a file");
  CHECK(error(dir.path("d/")) == "d/: cannot write: names a directory, expected a file");
  CHECK(error(dir.path("f")) == "f: cannot write: is not a regular file");
  CHECK(error(dir.path("loop")) == "loop: cannot write: Too many levels of symbolic links");
  CHECK(error(dir.path("none/x")) == "none/x: cannot create a file beside it: No such file or directory");
  CHECK(error("") == ": cannot write: not a path");
  CHECK(dir.names() == Names{"d", "f", "loop"});
}

TEST_CASE("save: a write that fails leaves the old file and nothing beside it") {
  const TempDir dir;
  dir.write("x.npy", "old");
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit small{64, limit.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);  // so that write() fails with EFBIG, as a full disk's would
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string npy = error_in(dir, [&] { io::save_npy(dir.path("x.npy"), View(kValues.data(), {24})); });
  const std::string npz = error_in(dir, [&] { io::save_npz(dir.path("x.npy"), {{"x", View(kValues.data(), {24})}}); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old_handler);
  CHECK(npy == "x.npy: cannot write: File too large");
  CHECK(npz == "x.npy: cannot write: File too large");
  CHECK(dir.names() == Names{"x.npy"});
  CHECK(dir.read("x.npy") == "old");
}

TEST_CASE("save: links stay links, their targets are replaced") {
  const TempDir dir;
  fs::create_directory(dir.path("sub"));
  dir.write("sub/target", "old");
  fs::create_symlink("sub/target", dir.path("link"));
  fs::create_symlink(dir.path("link"), dir.path("absolute"));
  fs::create_symlink("sub/later", dir.path("dangling"));
  io::save_bytes(dir.path("absolute"), "new");
  io::save_bytes(dir.path("dangling"), "born");
  CHECK(dir.read("sub/target") == "new");
  CHECK(dir.read("sub/later") == "born");
  CHECK(fs::is_symlink(dir.path("link")));
  CHECK(fs::is_symlink(dir.path("absolute")));
  CHECK(fs::is_symlink(dir.path("dangling")));
  CHECK(dir.names() == Names{"absolute", "dangling", "link", "sub"});
}

TEST_CASE("save: permissions are the umask's for a new file, the old ones and the owner for a replaced one") {
  const TempDir dir;
  const mode_t old_mask = ::umask(027);
  io::save_bytes(dir.path("new"), "");
  dir.write("old", "old");
  fs::permissions(dir.path("old"), fs::perms::owner_read | fs::perms::owner_write);
  io::save_bytes(dir.path("old"), "new");
  ::umask(old_mask);
  CHECK(fs::status(dir.path("new")).permissions() == fs::perms{0640});
  CHECK(fs::status(dir.path("old")).permissions() == fs::perms{0600});
  if (::geteuid() != 0) return;  // others may not give files away
  constexpr ::uid_t kNobody = 65534;
  REQUIRE(::chown(dir.path("old").c_str(), kNobody, kNobody) == 0);
  io::save_bytes(dir.path("old"), "newer");
  struct stat status {};
  REQUIRE(::stat(dir.path("old").c_str(), &status) == 0);
  CHECK(status.st_uid == kNobody);
  CHECK(status.st_gid == kNobody);
  CHECK((status.st_mode & 0777U) == 0600U);
}

TEST_CASE("save: a file without permission to write it is not replaced") {
  const TempDir dir;
  fs::permissions(dir.write("kept", "old"), fs::perms::owner_read | fs::perms::others_read);
  fs::create_symlink("kept", dir.path("link"));
  fs::permissions(dir.path(), fs::perms::all);
  const auto error_of_save = [&](const char* name) {
    return error_in(dir, [&] { io::save_bytes(dir.path(name), "new"); });
  };
  const std::optional<bool> as_it_should = as_ordinary_user([&] {
    return error_of_save("kept") == "kept: cannot write: Permission denied" &&
           error_of_save("link") == "link: cannot write: Permission denied" && error_of_save("new") == "no error";
  });
  if (!as_it_should) {
    MESSAGE("not tried: root, and no other user to be had");
    return;
  }
  CHECK(*as_it_should);
  CHECK(dir.read("kept") == "old");
  CHECK(dir.names() == Names{"kept", "link", "new"});
}

TEST_CASE("save: many writers, one whole file") {
  const TempDir dir;
  const std::string path = dir.path("x.npy");
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&path] {
      for (int round = 0; round < 20; ++round) io::save_npy(path, View(kValues.data(), {24}));
    });
  }
  for (int round = 0; round < 20; ++round) {
    if (fs::exists(path)) CHECK(io::load_tensor(path).data == kValues);
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(dir.names() == Names{"x.npy"});
}

TEST_CASE("save: names as long as the file system takes, and relative paths") {
  const TempDir dir;
  const std::string name(255, 'n');
  io::save_bytes(dir.path(name), "x");
  CHECK(dir.read(name) == "x");
  const fs::path old_directory = fs::current_path();
  fs::current_path(dir.path());
  io::save_bytes("here", "x");
  fs::current_path(old_directory);
  CHECK(dir.read("here") == "x");
}

}  // namespace
}  // namespace attend::tests
