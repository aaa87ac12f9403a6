// Reading .npy: what numpy writes, and what nobody should.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "attend/io.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {
namespace {

using Sizes = std::vector<std::int64_t>;

const std::string kSix = f32_bytes({0, 1, 2, 3, 4, 5});

std::string error_of_npy(const std::string& bytes) {
  const TempDir dir;
  const std::string path = dir.write("x.npy", bytes);
  const std::string error = error_in(dir, [&] { io::load_tensor(path); });
  if (error != "no error") CHECK(error_in(dir, [&] { io::load_sizes(path); }) == error);  // both doors say the same
  return error;
}

void check_six(const std::string& bytes) {
  const TempDir dir;
  const std::string path = dir.write("x.npy", bytes);
  io::Notices notices;
  const Tensor tensor = io::load_tensor(path, &notices);
  CHECK(tensor.sizes == Sizes{2, 3});
  CHECK(tensor.data == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(notices.empty());
  CHECK(io::load_sizes(path) == Sizes{2, 3});
}

std::string error_of_header(const std::string& header) { return error_of_npy(npy_file(header, kSix)); }

std::string error_of_shape(const std::string& shape) { return error_of_npy(npy_array("<f4", shape, kSix)); }

TEST_CASE("npy: numpy's file, versions 1, 2 and 3") {
  check_six(numpy_npy());
  for (const int version : {1, 2, 3}) check_six(npy_file(npy_dict("<f4", "(2, 3)"), kSix, version));
}

TEST_CASE("npy: other spellings of the same dict") {
  check_six(npy_file("{\"shape\":(2,3,),\"descr\":\"<f4\",\"fortran_order\":False}", kSix));
  check_six(npy_file("  { 'shape' : ( 2L , 3L ) , 'fortran_order' :False, 'descr':'<f4' , }  \n", kSix));
}

TEST_CASE("npy: a scalar becomes shape (1), zero sizes stay") {
  const TempDir dir;
  const Tensor scalar = io::load_tensor(dir.write("x.npy", npy_array("<f4", "()", f32_bytes({7}))));
  CHECK(scalar.sizes == Sizes{1});
  CHECK(scalar.data == std::vector<float>{7});
  const Tensor none = io::load_tensor(dir.write("x.npy", npy_array("<f4", "(2, 0, 3)", "")));
  CHECK(none.sizes == Sizes{2, 0, 3});
  CHECK(none.data.empty());
}

TEST_CASE("npy: one to four axes, five are too many") {
  const TempDir dir;
  for (const char* shape : {"(6,)", "(1, 6)", "(1, 2, 3)", "(1, 1, 3, 2)"}) {
    CHECK(io::load_tensor(dir.write("x.npy", npy_array("<f4", shape, kSix))).data.size() == 6);
  }
  CHECK(error_of_shape("(1, 1, 1, 2, 3)") == "x.npy: 5 axes, expected at most 4");
}

TEST_CASE("npy: not a file to read") {
  const TempDir dir;
  std::filesystem::create_directory(dir.path("d.npy"));
  REQUIRE(::mkfifo(dir.path("f.npy").c_str(), 0600) == 0);
  const auto error = [&](const std::string& name) { return error_in(dir, [&] { io::load_tensor(dir.path(name)); }); };
  CHECK(error("none.npy") == "none.npy: cannot open: No such file or directory");
  CHECK(error("d.npy") == "d.npy: is a directory, expected a regular file");
  CHECK(error("f.npy") == "f.npy: is a FIFO, expected a regular file");
  CHECK(error("x.txt") == "x.txt: unknown file type, expected file.npy, file.npz:name or file.safetensors:name");
  CHECK(error("a\nb\x1b[31m.npy") == "a\\x0ab\\x1b[31m.npy: cannot open: No such file or directory");
  CHECK(error(std::string("a\0b.npy", 7)) == "a\\x00b.npy: cannot open: the path contains a NUL byte");
  std::filesystem::create_symlink(dir.write("good.npy", numpy_npy()), dir.path("link.npy"));
  CHECK(io::load_tensor(dir.path("link.npy")).sizes == Sizes{2, 3});
}

TEST_CASE("npy: preamble") {
  CHECK(error_of_npy("") == "x.npy: is not a .npy file: 0 bytes long");
  CHECK(error_of_npy("PK\x03\x04 and more") == "x.npy: is not a .npy file: it does not begin with '\\x93NUMPY'");
  CHECK(error_of_npy("\x93NUMPY\x01\x01      ") == "x.npy: .npy version 1.1, expected 1.0, 2.0 or 3.0");
  CHECK(error_of_npy("\x93NUMPY\x04" + std::string(9, '\0')) == "x.npy: .npy version 4.0, expected 1.0, 2.0 or 3.0");
}

TEST_CASE("npy: header length beyond the file, or beyond reason") {
  CHECK(error_of_npy(std::string("\x93NUMPY\x01\0\xff\xff{}", 12)) ==
        "x.npy: .npy header of 65535 bytes, expected at most 2");
  CHECK(error_of_npy(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff{}", 14)) ==
        "x.npy: .npy header of 4294967295 bytes, expected at most 2");
  const std::string long_header = npy_dict("<f4", "(2, 3)") + std::string(2'000'000, ' ');
  CHECK(error_of_npy(npy_file(long_header, kSix, 2)) ==
        "x.npy: .npy header of " + std::to_string(long_header.size()) + " bytes, expected at most 1048576");
}

TEST_CASE("npy: header that is no dict literal") {
  CHECK(error_of_header("") == "x.npy: .npy header has its end at byte 0, expected a dict");
  CHECK(error_of_header("__import__('os')") == "x.npy: .npy header has '__import__('os')' at byte 0, expected a dict");
  CHECK(error_of_header("{'descr': '<f4'") ==
        "x.npy: .npy header has its end at byte 15, expected ',' or '}' after a value");
  CHECK(error_of_header("{'descr': '<f4") == "x.npy: .npy header has its end at byte 14, expected the end of a string");
  CHECK(error_of_header("{'descr': '<f4\\") ==
        "x.npy: .npy header has its end at byte 15, expected the end of a string");
  CHECK(error_of_header("{'descr' '<f4'}") == "x.npy: .npy header has ''<f4'}' at byte 9, expected ':' after a key");
  CHECK(error_of_header("{'descr': 4}") == "x.npy: .npy header has '4}' at byte 10, expected a type string");
  CHECK(error_of_header("{'descr': '<f\\x34'}") ==
        "x.npy: .npy header has '}' at byte 18, expected a string without escapes");
  CHECK(error_of_header("{descr: '<f4'}") == "x.npy: .npy header has 'descr: '<f4'}' at byte 1, expected a key");
  CHECK(error_of_header("{'fortran_order': 0}") == "x.npy: .npy header has '0}' at byte 18, expected True or False");
  CHECK(error_of_header(npy_dict("<f4", "(2, 3)") + "()") ==
        "x.npy: .npy header has '()' at byte 60, expected nothing but spaces after the dict");
  CHECK(error_of_header(npy_dict("<f4", "(2, 3)") + std::string(1, '\0')) ==
        "x.npy: .npy header has '\\x00' at byte 60, expected nothing but spaces after the dict");
}

TEST_CASE("npy: keys missing, twice, or unknown") {
  CHECK(error_of_header("{}") == "x.npy: .npy header has no key 'descr'");
  CHECK(error_of_header("{'descr': '<f4'}") == "x.npy: .npy header has no key 'fortran_order'");
  CHECK(error_of_header("{'descr': '<f4', 'fortran_order': False}") == "x.npy: .npy header has no key 'shape'");
  CHECK(error_of_header("{'descr': '<f4', 'descr': '<f8'}") == "x.npy: .npy header has the key 'descr' twice");
  CHECK(error_of_header("{'shape': (), 'shape': ()}") == "x.npy: .npy header has the key 'shape' twice");
  CHECK(error_of_header("{'color\x07': ()}") ==
        "x.npy: .npy header has the key 'color\\x07', expected 'descr', 'fortran_order' and 'shape' only");
}

TEST_CASE("npy: hostile shapes") {
  CHECK(error_of_shape("(-2, 3)") ==
        "x.npy: .npy header has '-2, 3), }\\x0a' at byte 51, expected a size of at least 0");
  CHECK(error_of_shape("(6)") ==
        "x.npy: .npy header has ', }\\x0a' at byte 53, expected ',' after the only size of a tuple");
  CHECK(error_of_shape("(2 3)") == "x.npy: .npy header has '3), }\\x0a' at byte 53, expected ',' or ')' after a size");
  CHECK(error_of_shape("6") == "x.npy: .npy header has '6, }\\x0a' at byte 50, expected a tuple");
  CHECK(error_of_shape("(2., 3)") ==
        "x.npy: .npy header has '., 3), }\\x0a' at byte 52, expected ',' or ')' after a size");
  CHECK(error_of_shape("(,)") == "x.npy: .npy header has ',), }\\x0a' at byte 51, expected a size");
  CHECK(error_of_shape("(99999999999999999999,)").ends_with("expected a size below 2^63"));
  CHECK(error_of_shape("(4294967296, 4294967296)") ==
        "x.npy: shape (4294967296, 4294967296) overflows, expected fewer than 2^56 elements");
  CHECK(error_of_shape("(0, 4294967296, 4294967296)") ==
        "x.npy: shape (0, 4294967296, 4294967296) overflows, expected fewer than 2^56 elements");
  CHECK(error_of_shape("(1000000000000,)") ==
        "x.npy: 24 bytes of data, expected 4000000000000 for float32 of shape (1000000000000)");
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  CHECK(error_of_shape(many + ")").ends_with("expected at most 64 sizes"));
}

TEST_CASE("npy: data too short or too long") {
  CHECK(error_of_shape("(2, 4)") == "x.npy: 24 bytes of data, expected 32 for float32 of shape (2, 4)");
  CHECK(error_of_shape("(5,)") == "x.npy: 24 bytes of data, expected 20 for float32 of shape (5)");
  CHECK(error_of_shape("(0,)") == "x.npy: 24 bytes of data, expected 0 for float32 of shape (0)");
}

TEST_CASE("npy: Fortran order, big-endian, and types that are not read") {
  CHECK(error_of_npy(npy_file(npy_dict("<f4", "(2, 3)", "True"), kSix)) == "x.npy: Fortran order, expected C order");
  CHECK(error_of_npy(npy_file(npy_dict("<f4", "(6,)", "True"), kSix)) == "no error");
  CHECK(error_of_npy(npy_file(npy_dict("<f4", "(1, 6, 1)", "True"), kSix)) == "no error");
  CHECK(error_of_npy(npy_array(">f4", "(2, 3)", kSix)) == "x.npy: big-endian float32, expected little-endian");
  const TempDir dir;
  const auto error = [&](const std::string& header) {
    const std::string path = dir.write("x.npy", npy_file(header, kSix));
    return error_in(dir, [&] { io::load_tensor(path); });
  };
  const std::string expected = ", expected float32, float64, float16 or bfloat16";
  CHECK(error(npy_dict("<i4", "(2, 3)")) == "x.npy: int32" + expected);
  CHECK(error(npy_dict("<c8", "(3,)")) == "x.npy: dtype '<c8'" + expected);
  CHECK(error(npy_dict("=f4", "(6,)")) == "x.npy: dtype '=f4'" + expected);
  CHECK(error(npy_dict("|b1", "(24,)")) == "x.npy: dtype '|b1'" + expected);
  CHECK(error(npy_dict("|O", "(1,)")) == "x.npy: Python object dtype '|O'" + expected);
  CHECK(error("{'descr': [('a', '<i4'), ('b]', '<f4')], 'fortran_order': False, 'shape': (1,), }\n") ==
        "x.npy: structured dtype '[('a', '<i4'), ('b]', '<f4')]'" + expected);
  CHECK(error("{'descr': " + std::string(50'000, '[')) ==
        "x.npy: .npy header has its end at byte 50010, expected the end of the type list");
}

TEST_CASE("npy: lengths are int32 or int64 that fits") {
  const TempDir dir;
  io::Notices notices;
  const auto load = [&](const std::string& bytes) { return io::load_lengths(dir.write("x.npy", bytes), &notices); };
  CHECK(load(npy_array("<i4", "(2,)", le32(3) + le32(0xFFFFFFFF))).data == std::vector<std::int32_t>{3, -1});
  CHECK(notices.empty());
  const LengthsTensor wide = load(npy_array("<i8", "(1, 2)", le64(0x7FFFFFFF) + le64(0xFFFFFFFF80000000)));
  CHECK(wide.sizes == Sizes{1, 2});
  CHECK(wide.data == std::vector<std::int32_t>{2147483647, -2147483647 - 1});
  REQUIRE(notices.size() == 1);
  CHECK(notices[0] == dir.path("x.npy") + ": int64 converted to int32");
  CHECK(io::load_sizes(dir.path("x.npy")) == Sizes{1, 2});
  const auto error = [&](const std::string& bytes) { return error_in(dir, [&] { load(bytes); }); };
  CHECK(error(npy_array("<i8", "(2,)", le64(1) + le64(0x80000000))) ==
        "x.npy: element 1 is 2147483648, expected to fit int32");
  CHECK(error(npy_array("<i8", "(1,)", le64(0xFFFFFFFF7FFFFFFF))) ==
        "x.npy: element 0 is -2147483649, expected to fit int32");
  CHECK(error(npy_array("<f4", "(2, 3)", kSix)) == "x.npy: float32, expected int32 or int64");
  CHECK(error(npy_array("<u4", "(6,)", kSix)) == "x.npy: dtype '<u4', expected int32 or int64");
}

}  // namespace
}  // namespace attend::tests
