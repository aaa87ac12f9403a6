// The doors (engine/README.md): which room may enter which. Reads the #include lines of every source file.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace attend::tests {
namespace {

// A folder (or file) and what it may include beside the C++ standard library. The longest matching folder counts.
struct Room {
  std::string_view folder;
  std::vector<std::string_view> doors;
};

// "system" are headers of C and of the operating system, "libraries" all other people's headers but Highway and oneDNN.
const std::vector<Room>& rooms() {
  static const std::vector<Room> kRooms = {
      {"include/", {"attend/"}},
      {"include/attend/attend_c.h", {"stddef.h", "stdint.h"}},  // C has no <cstddef>
      {"engine/base/", {"attend/", "engine/base/", "system"}},
      {"engine/view/", {"attend/", "engine/base/", "engine/view/"}},
      {"engine/reference/", {"attend/", "engine/reference/"}},
      {"engine/simd/", {"engine/simd/", "hwy/"}},
      {"engine/kernels/", {"attend/", "engine/base/", "engine/simd/", "engine/kernels/", "hwy/"}},
      {"engine/matmul/",
       {"attend/", "engine/base/", "engine/kernels/linear_rows.h", "engine/matmul/", "dnnl", "system"}},
      {"engine/plan/",
       {"attend/", "engine/base/", "engine/view/", "engine/kernels/", "engine/matmul/", "engine/plan/"}},
      {"engine/run/",
       {"attend/", "engine/base/", "engine/view/", "engine/kernels/", "engine/matmul/", "engine/plan/", "engine/run/"}},
      {"engine/tune/", {"attend/", "engine/base/", "engine/kernels/", "engine/plan/", "engine/tune/"}},
      {"engine/layers/",
       {"attend/", "engine/base/", "engine/view/", "engine/kernels/", "engine/matmul/", "engine/plan/", "engine/run/",
        "engine/layers/"}},
      {"tools/", {"attend/", "tools/", "system", "libraries"}},
      {"tests/", {"attend/", "engine/", "tools/", "tests/", "system", "libraries"}},
      {"tests/contract_process_test.cc", {"attend/", "tests/", "hwy/", "system", "libraries"}},
      {"tests/simd/", {"attend/", "engine/", "tests/", "hwy/", "system", "libraries"}},
      {"tests/kernels/", {"attend/", "engine/", "tests/", "hwy/", "system", "libraries"}},
      {"tests/embed/", {"attend/", "system"}},
      {"bench/", {"attend/", "engine/", "bench/", "system", "libraries"}},
      {"bench/kernels/", {"attend/", "engine/", "bench/", "hwy/", "system", "libraries"}},
      {"bench/contest/", {"attend/", "engine/", "bench/", "dnnl", "system", "libraries"}},
  };
  return kRooms;
}

const Room* room_of(std::string_view file) {
  const Room* best = nullptr;
  for (const Room& room : rooms()) {
    if (file.starts_with(room.folder) && (best == nullptr || room.folder.size() > best->folder.size())) best = &room;
  }
  return best;
}

// What an #include line asks for, as the rooms' tables name it; "" for the C++ standard library.
std::string_view door_of(std::string_view header) {
  if (header.find("dnnl") != std::string_view::npos) return "dnnl";
  for (const std::string_view project : {"attend/", "engine/", "tools/", "tests/", "bench/", "hwy/"}) {
    if (header.starts_with(project)) return header;
  }
  if (header.find_first_of("./") == std::string_view::npos) return "";
  const bool folder = header.find('/') != std::string_view::npos;
  if (header.starts_with("sys/") || header.starts_with("linux/")) return "system";
  if (!folder && header.ends_with(".h") && header != "zlib.h" && header != "png.h") return "system";
  return "libraries";
}

bool may_include(std::string_view file, std::string_view header) {
  const Room* room = room_of(file);
  if (room == nullptr || header.starts_with(".")) return false;
  const std::string_view door = door_of(header);
  return door.empty() || std::any_of(room->doors.begin(), room->doors.end(), [&](std::string_view allowed) {
           return door.starts_with(allowed) || header == allowed;
         });
}

// The header of an #include line, or "".
std::string_view included(std::string_view line) {
  const auto skip_spaces = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  skip_spaces();
  if (!line.starts_with('#')) return "";
  line.remove_prefix(1);
  skip_spaces();
  if (!line.starts_with("include")) return "";
  line.remove_prefix(7);
  skip_spaces();
  if (line.empty()) return "";
  const std::size_t end = line.find(line.front() == '<' ? '>' : '"', 1);
  return (line.front() == '<' || line.front() == '"') && end != std::string_view::npos ? line.substr(1, end - 1) : "";
}

struct Include {
  std::string file, header;
};

// Calls use(file, line) for every line of our C and C++.
template <class Use>
void for_each_line(const Use& use) {
  namespace fs = std::filesystem;
  const fs::path root = ATTEND_SOURCE_DIR;
  for (const char* top : {"engine", "include", "tools", "tests", "bench"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      const std::string extension = entry.path().extension().string();
      if (!entry.is_regular_file() || (extension != ".h" && extension != ".cc" && extension != ".c")) continue;
      const std::string file = fs::relative(entry.path(), root).generic_string();
      std::ifstream stream(entry.path());
      for (std::string line; std::getline(stream, line);) use(file, line);
    }
  }
}

std::vector<Include> all_includes() {
  std::vector<Include> includes;
  for_each_line([&](const std::string& file, const std::string& line) {
    const std::string_view header = included(line);
    if (!header.empty()) includes.push_back({file, std::string(header)});
  });
  return includes;
}

}  // namespace

TEST_CASE("doors: no file enters a room it may not") {
  const std::vector<Include> includes = all_includes();
  REQUIRE(includes.size() > 300);
  for (const Include& include : includes) {
    if (!may_include(include.file, include.header)) FAIL_CHECK(include.file << " must not include " << include.header);
  }
}

TEST_CASE("lines: none is longer than 120 columns, comments too, which clang-format leaves as they are") {
  for_each_line([](const std::string& file, const std::string& line) {
    const auto columns =
        std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
    if (columns > 120) FAIL_CHECK(file << ": " << line);
  });
}

TEST_CASE("bench: what is timed runs once before, in measure() of support.h") {
  std::vector<std::string> loops;
  for_each_line([&](const std::string& file, const std::string& line) {
    if (file.starts_with("bench/") && line.find(": state)") != std::string::npos) loops.push_back(file);
  });
  std::sort(loops.begin(), loops.end());
  loops.erase(std::unique(loops.begin(), loops.end()), loops.end());
  // The planner's cases are timed by Planner::tune.
  CHECK(loops == std::vector<std::string>{"bench/plan/planner_bench.cc", "bench/support.h"});
}

TEST_CASE("doors: oneDNN is known to matmul and to at most one bench contender") {
  std::vector<std::string> contenders;
  for (const Include& include : all_includes()) {
    if (door_of(include.header) == "dnnl" && !include.file.starts_with("engine/")) contenders.push_back(include.file);
  }
  contenders.erase(std::unique(contenders.begin(), contenders.end()), contenders.end());
  CHECK(contenders.size() <= 1);
}

TEST_CASE("doors: per-target code, -inl.h, is included by per-target code and dispatch points only") {
  for (const Include& include : all_includes()) {
    if (!include.header.ends_with("-inl.h")) continue;
    const bool inside =
        include.file.find("simd/") != std::string::npos || include.file.find("kernels/") != std::string::npos;
    if (!inside || (include.file.ends_with(".h") && !include.file.ends_with("-inl.h"))) {
      FAIL_CHECK(include.file << " must not include " << include.header);
    }
  }
}

TEST_CASE("doors: the rules themselves") {
  CHECK(included("#include <vector>") == "vector");
  CHECK(included("  #  include \"engine/base/message.h\"  // why") == "engine/base/message.h");
  CHECK(included("// #include <vector>") == "");
  CHECK(included("#define INCLUDE") == "");
  struct {
    const char *file, *header;
    bool allowed;
  } const kRules[] = {
      {"include/attend/plan.h", "attend/target.h", true},
      {"include/attend/plan.h", "vector", true},
      {"include/attend/plan.h", "hwy/base.h", false},
      {"include/attend/plan.h", "engine/plan/rules.h", false},
      {"include/attend/plan.h", "unistd.h", false},
      {"include/attend/plan.h", "stdint.h", false},
      {"include/attend/attend_c.h", "stdint.h", true},
      {"include/attend/attend_c.h", "attend/plan.h", false},
      {"engine/base/message.h", "engine/view/check.h", false},
      {"engine/plan/tile_rules.cc", "engine/kernels/pack.h", true},
      {"engine/plan/tile_rules.cc", "engine/simd/math-inl.h", false},
      {"engine/plan/tile_rules.cc", "engine/run/run_plan.h", false},
      {"engine/plan/tile_rules.cc", "hwy/highway.h", false},
      {"engine/run/pool.cc", "dnnl.hpp", false},
      {"engine/kernels/pack.cc", "engine/matmul/linear.h", false},
      {"engine/matmul/linear.cc", "engine/kernels/pack.h", false},
      {"engine/matmul/dnnl_product.cc", "oneapi/dnnl/dnnl.hpp", true},
      {"engine/reference/layers.cc", "engine/run/pool.h", false},
      {"engine/layers/dot.cc", "engine/reference/pooling.h", false},
      {"engine/layers/dot.cc", "../plan/rules.h", false},
      {"tools/attend/main.cc", "CLI/CLI.hpp", true},
      {"tools/attend/main.cc", "engine/plan/rules.h", false},
      {"tests/layers/sizes_test.cc", "hwy/highway.h", false},
      {"tests/simd/math_test.cc", "hwy/highway.h", true},
      {"tests/matmul/linear_test.cc", "dnnl.h", false},
      {"elsewhere/main.cc", "vector", false},
  };
  for (const auto& rule : kRules) {
    INFO(rule.file, " includes ", rule.header);
    CHECK(may_include(rule.file, rule.header) == rule.allowed);
  }
}

}  // namespace attend::tests
