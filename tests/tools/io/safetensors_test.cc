// Reading .safetensors: the format's rules, each broken once.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "attend/io.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {
namespace {

using Sizes = std::vector<std::int64_t>;

std::string error_of_file(const std::string& bytes) {
  const TempDir dir;
  const std::string path = dir.write("m.safetensors", bytes);
  const std::string error = error_in(dir, [&] { io::load_tensor(path + ":a"); });
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

// The message after "m.safetensors: ", for a header and 16 bytes of data.
std::string error_of_header(const std::string& json) {
  const std::string error = error_of_file(safetensors_file(json, std::string(16, '\0')));
  const std::string prefix = "m.safetensors: ";
  return error.starts_with(prefix) ? error.substr(prefix.size()) : error;
}

std::string error_of_tensor(const std::string& fields) { return error_of_header("{\"a\":{" + fields + "}}"); }

std::string error_of_offsets(const std::string& a, const std::string& b) {
  return error_of_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":" + a +
                         "},\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":" + b + "}}");
}

TEST_CASE("safetensors: tensors of a checkpoint, by name and by prefix") {
  const TempDir dir;
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"enc.w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("enc.b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},"enc.n":{"dtype":"I64","shape":[1],)"
      R"("data_offsets":[12,20]},"s":{"dtype":"F64","shape":[],"data_offsets":[20,28]},)"
      R"("z":{"dtype":"F16","shape":[0,5],"data_offsets":[28,28]}}   )";
  const std::string data = f32_bytes({1.5F, -2}) + le16(0x3F80) + le16(0xC000) + le64(9) + le64(0x3FE0000000000000);
  const std::string path = dir.write("m.safetensors", safetensors_file(json, data));
  io::Notices notices;
  const Parameters parameters = io::load(path, "enc.", &notices);
  CHECK(parameters.names() == std::vector<std::string>{"b", "w"});
  CHECK(parameters.source() == path + ", prefix 'enc.'");
  CHECK(parameters.find("w").size(0) == 2);
  CHECK(*parameters.find("w").at(1, 0) == -2.0F);
  CHECK(*parameters.find("b").at(1) == -2.0F);
  CHECK(notices == io::Notices{path + ": tensor 'enc.b': bfloat16 converted to float32",
                               path + ": tensor 'enc.n': int64 left out, expected floats"});
  const Tensor scalar = io::load_tensor(path + ":s");
  CHECK(scalar.sizes == Sizes{1});
  CHECK(scalar.data == std::vector<float>{0.5F});
  CHECK(io::load_sizes(path + ":z") == Sizes{0, 5});
  CHECK(io::load_lengths(path + ":enc.n").data == std::vector<std::int32_t>{9});
  CHECK(io::load(path).names() == std::vector<std::string>{"enc.b", "enc.w", "s", "z"});
  CHECK(error_in(dir, [&] { io::load_tensor(path + ":w"); }) ==
        "m.safetensors: no tensor 'w'; there are: 'enc.b', 'enc.n', 'enc.w', 's', 'z'");
  CHECK(error_in(dir, [&] {
          io::load_tensor(path);
        }).starts_with("m.safetensors: holds tensors by name, expected 'file:name'"));
}

TEST_CASE("safetensors: only what is asked for is read") {
  const TempDir dir;
  const std::string json = R"({"big":{"dtype":"F32","shape":[16384,1048576],"data_offsets":[4,68719476740]},)"
                           R"("small":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string path = dir.write("m.safetensors", safetensors_file(json, f32_bytes({3})));
  std::filesystem::resize_file(path, 8 + json.size() + 68719476740);  // a hole of 64 GiB
  CHECK(*io::load(path, "small").find("").data() == 3.0F);
  CHECK(io::load_sizes(path + ":big") == Sizes{16384, 1048576});
}

TEST_CASE("safetensors: a type that is not known spoils its own tensor only") {
  const TempDir dir;
  const std::string json = R"({"new":{"dtype":"Q\u001b4","shape":[3],"data_offsets":[4,5]},)"
                           R"("small":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string path = dir.write("m.safetensors", safetensors_file(json, f32_bytes({3}) + "x"));
  CHECK(io::load_tensor(path + ":small").data == std::vector<float>{3.0F});
  CHECK(error_in(dir, [&] { io::load_tensor(path + ":new"); }) ==
        "m.safetensors: tensor 'new': dtype Q\\x1b4, expected float32, float64, float16 or bfloat16");
}

TEST_CASE("safetensors: header length") {
  CHECK(error_of_file("1234567") == "m.safetensors: is not a .safetensors file: 7 bytes long");
  CHECK(error_of_file(le64(0)) == "m.safetensors: header does not begin with '{'");
  CHECK(error_of_file(le64(3) + "{}") == "m.safetensors: header of 3 bytes, expected at most 2");
  CHECK(error_of_file(le64(~std::uint64_t{0}) + "{}") ==
        "m.safetensors: header of 18446744073709551615 bytes, expected at most 2");
  const TempDir dir;
  const std::string path = dir.write("m.safetensors", le64(100'000'001) + "{");
  std::filesystem::resize_file(path, 200'000'000);
  CHECK(error_in(dir, [&] { io::load(path); }) ==
        "m.safetensors: header of 100000001 bytes, expected at most 100000000");
}

TEST_CASE("safetensors: header that is not JSON") {
  CHECK(error_of_header("[]") == "header does not begin with '{'");
  CHECK(error_of_header(" {}") == "header does not begin with '{'");
  CHECK(error_of_header("\xEF\xBB\xBF{}") == "header does not begin with '{'");
  CHECK(error_of_header("{") == "header is not valid JSON near byte 2");
  CHECK(error_of_header("{}{}") == "header is not valid JSON near byte 3");
  CHECK(error_of_header("{\"a\xff\":{}}") == "header is not valid JSON near byte 4");
  CHECK(error_of_header("{/* no comments */}").starts_with("header is not valid JSON near byte"));
  CHECK(error_of_header(std::string("{}\0\0", 4)) == "header has a NUL at byte 2, expected JSON");
}

TEST_CASE("safetensors: metadata may be null, as no metadata at all, or an object of strings; and is no tensor") {
  const std::string tensor = R"("a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]})";
  for (const std::string& before :
       {std::string(), std::string(R"("__metadata__":null,)"), std::string(R"("__metadata__":{},)"),
        std::string(R"("__metadata__":{"k":"v"},)")}) {
    INFO(before);
    const TempDir dir;
    const std::string path =
        dir.write("m.safetensors", safetensors_file("{" + before + tensor + "}", f32_bytes({1, 2, 3, 4})));
    CHECK(io::load_tensor(path + ":a").data == std::vector<float>{1, 2, 3, 4});
    CHECK(io::load(path).names() == std::vector<std::string>{"a"});
  }
  CHECK(error_of_header("{" + tensor + R"(,"__metadata__":null})") == "no error");
  for (const auto& [value, name] : std::vector<std::pair<std::string, std::string>>{
           {"1", "a number"}, {"\"x\"", "a string"}, {"[]", "an array"}, {"true", "a boolean"}}) {
    CHECK(error_of_header("{\"__metadata__\":" + value + "," + tensor + "}") ==
          "tensor '__metadata__': header has " + name + ", expected an object");
  }
  CHECK(error_of_header("{\"__metadata__\":{\"k\":null}," + tensor + "}") ==
        "tensor '__metadata__': header has null, expected strings only");
  CHECK(error_of_header("{\"__metadata__\":null,\"__metadata__\":null," + tensor + "}") ==
        "header has the name '__metadata__' twice");
}

TEST_CASE("safetensors: JSON of another shape") {
  CHECK(error_of_header("{\"a\":3}") == "tensor 'a': header has a number, expected an object");
  CHECK(error_of_header("{\"a\":[]}") == "tensor 'a': header has an array, expected an object");
  CHECK(error_of_header("{\"a\":null}") == "tensor 'a': header has null, expected an object");
  CHECK(error_of_header("{\"a\":" + std::string(100'000, '[')) ==
        "tensor 'a': header has an array, expected an object");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"dtype\":";
  CHECK(error_of_header("{\"a\":" + deep) == "tensor 'a': dtype is an object, expected a string");
  CHECK(error_of_header("{\"__metadata__\":{\"k\":1}}") ==
        "tensor '__metadata__': header has a number, expected strings only");
  CHECK(error_of_header("{\"__metadata__\":{\"k\":{}}}") ==
        "tensor '__metadata__': header has an object, expected strings only");
  CHECK(error_of_tensor("\"dtype\":1") == "tensor 'a': dtype is a number, expected a string");
  CHECK(error_of_tensor("\"shape\":{}") == "tensor 'a': shape is an object, expected an array");
  CHECK(error_of_tensor("\"shape\":\"x\"") == "tensor 'a': shape is a string, expected an array");
  CHECK(error_of_tensor("\"data_offsets\":true") == "tensor 'a': data_offsets is a boolean, expected an array");
  CHECK(error_of_tensor("\"data_offsets\":[[0]]") ==
        "tensor 'a': data_offsets holds an array, expected two integers of at least 0");
}

TEST_CASE("safetensors: keys missing, twice, or unknown") {
  CHECK(error_of_tensor("") == "tensor 'a': header has no key 'dtype'");
  CHECK(error_of_tensor("\"dtype\":\"F32\"") == "tensor 'a': header has no key 'shape'");
  CHECK(error_of_tensor("\"dtype\":\"F32\",\"shape\":[]") == "tensor 'a': header has no key 'data_offsets'");
  CHECK(error_of_tensor("\"dtype\":\"F32\",\"dtype\":\"F16\"") == "tensor 'a': header has the key 'dtype' twice");
  CHECK(error_of_tensor("\"offset\":1") ==
        "tensor 'a': header has the key 'offset', expected 'dtype', 'shape' and 'data_offsets' only");
  const std::string good = "\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}";
  CHECK(error_of_header("{" + good + "}") == "no error");
  CHECK(error_of_header("{" + good + "," + good + "}") == "header has the name 'a' twice");
  CHECK(error_of_header("{\"__metadata__\":{},\"__metadata__\":{}}") == "header has the name '__metadata__' twice");
  CHECK(error_of_header("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}") ==
        "tensor '__metadata__': header has the key 'k' twice");
  CHECK(error_of_header("{\"\\u001b[2J\":{\"x\":1}}").starts_with("tensor '\\x1b[2J': header has the key 'x'"));
}

TEST_CASE("safetensors: hostile shapes and types") {
  const auto error = [](const std::string& dtype, const std::string& shape) {
    return error_of_tensor("\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[0,16]");
  };
  CHECK(error("F32", "[2,2]") == "no error");
  CHECK(error("F32", "[-1]") == "tensor 'a': shape holds the negative number -1, expected integers from 0 to 2^63 - 1");
  CHECK(error("F32", "[4.0]") == "tensor 'a': shape holds the number 4.0, expected integers from 0 to 2^63 - 1");
  CHECK(error("F32", "[1e400]").starts_with("header is not valid JSON near byte"));
  CHECK(error("F32", "[99999999999999999999]") ==
        "tensor 'a': shape holds the number 99999999999999999999, expected integers from 0 to 2^63 - 1");
  CHECK(error("F32", "[9223372036854775808]") ==
        "tensor 'a': size 9223372036854775808 in the shape, expected below 2^63");
  CHECK(error("F32", "[4294967296,4294967296]") ==
        "tensor 'a': shape (4294967296, 4294967296) overflows, expected fewer than 2^56 elements");
  CHECK(error("F32", "[0,4611686018427387904,4]").find("overflows") != std::string::npos);
  CHECK(error("F32", "[3]") == "tensor 'a': data_offsets [0, 16] hold 16 bytes, expected 12 for F32 of shape (3)");
  CHECK(error("F32", "[1,1,1,2,2]") == "tensor 'a': 5 axes, expected at most 4");
  CHECK(error("F6_E2M3", "[3]") == "tensor 'a': shape (3) of 6-bit elements does not fill whole bytes");
  CHECK(error("Q4", "[4]") == "tensor 'a': dtype Q4, expected float32, float64, float16 or bfloat16");
  CHECK(error("I32", "[4]") == "tensor 'a': int32, expected float32, float64, float16 or bfloat16");
  CHECK(error("U32", "[4]") == "tensor 'a': dtype U32, expected float32, float64, float16 or bfloat16");
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) many += ",1";
  CHECK(error("F32", many + "]") == "tensor 'a': shape of more than 64 sizes, expected fewer");
}

TEST_CASE("safetensors: offsets overlap, leave gaps or leave the file") {
  CHECK(error_of_offsets("[8,16]", "[0,8]").starts_with("tensor 'a': dtype U8, expected"));  // in any order
  CHECK(error_of_offsets("[0,8]", "[0,8]") ==
        "tensor 'b': data_offsets [0, 8] overlap the tensor before, expected to begin at 8");
  CHECK(error_of_offsets("[0,8]", "[4,12]") ==
        "tensor 'b': data_offsets [4, 12] overlap the tensor before, expected to begin at 8");
  CHECK(error_of_offsets("[1,9]", "[9,17]") ==
        "tensor 'b': data_offsets [9, 17], expected in order and at most 16, the bytes after the header");
  CHECK(error_of_offsets("[8,0]", "[8,16]") ==
        "tensor 'a': data_offsets [8, 0], expected in order and at most 16, the bytes after the header");
  CHECK(error_of_offsets("[18446744073709551608,18446744073709551615]", "[0,8]")
            .starts_with("tensor 'a': data_offsets [18446744073709551608, 18446744073709551615], expected in order"));
  CHECK(error_of_offsets("[0,8,16]", "[8,16]") == "tensor 'a': 3 data_offsets, expected 2");
  CHECK(error_of_offsets("[]", "[8,16]") == "tensor 'a': 0 data_offsets, expected 2");
  CHECK(error_of_offsets("[-8,0]", "[8,16]") ==
        "tensor 'a': data_offsets holds the negative number -8, expected two integers of at least 0");
  CHECK(error_of_tensor("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[4,16]") ==
        "tensor 'a': data_offsets [4, 16] leave a gap after the tensor before, expected to begin at 0");
  CHECK(error_of_tensor("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]") ==
        "16 bytes after the header, expected 12, the end of the last tensor");
  CHECK(error_of_header("{}") == "16 bytes after the header, expected 0, the end of the last tensor");
}

}  // namespace
}  // namespace attend::tests
