// Good files, damaged systematically: every prefix, every byte changed, and many random changes at once. Whatever
// comes, a reader throws Error or returns; the sanitizer build says whether it also kept its hands to itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "attend/io.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {
namespace {

struct Sample {
  std::string file_name;
  std::string tensor;  // "" or ":x"
  std::string bytes;
  bool has_checksum;  // then any data that loads is the right data
};

std::vector<Sample> samples() {
  const std::string npy = npy_array("<f4", "(2, 3)", f32_bytes({0, 1, 2, 3, 4, 5}));
  ZipPart wide = stored_part("x.npy", npy);
  wide.zip64 = true;
  const std::string body = zip_local(wide) + wide.data;
  const std::string directory = zip_entry(wide, 0);
  const std::string json = R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                           R"("y":{"dtype":"F16","shape":[1],"data_offsets":[24,26]}})";
  return {
      {"s.npy", "", npy, false},
      {"s.npz", ":x", zip_file({stored_part("x.npy", npy), deflated_part("y.npy", npy)}), true},
      {"s.npz", ":x", numpy_compressed_npz(), true},
      {"s.npz", ":x", streamed_npz(), true},
      {"s.npz", ":x", body + directory + zip_end64(1, directory.size(), body.size()), true},
      {"s.safetensors", ":x", safetensors_file(json, f32_bytes({0, 1, 2, 3, 4, 5}) + le16(0x3C00)), false},
  };
}

// Loads by every door. Returns whether the tensor loaded with its right data; Errors are expected, anything else passes
// on.
struct Outcome {
  bool loaded = false;
  bool right = false;
};
Outcome load_by_every_door(const TempDir& dir, const Sample& sample, const std::string& bytes) {
  const std::string path = dir.write(sample.file_name, bytes);
  const std::string spec = path + sample.tensor;
  Outcome outcome;
  error_of([&] {
    const Tensor tensor = io::load_tensor(spec);
    outcome.loaded = true;
    outcome.right =
        tensor.sizes == std::vector<std::int64_t>{2, 3} && tensor.data == std::vector<float>{0, 1, 2, 3, 4, 5};
  });
  error_of([&] { io::load_sizes(spec); });
  error_of([&] { io::load_lengths(spec); });
  if (!sample.tensor.empty()) error_of([&] { io::load(path); });
  return outcome;
}

TEST_CASE("damage: every prefix of a good file is an error") {
  const TempDir dir;
  for (const Sample& sample : samples()) {
    CAPTURE(sample.file_name);
    CHECK(load_by_every_door(dir, sample, sample.bytes).right);
    for (std::size_t length = 0; length < sample.bytes.size(); ++length) {
      CAPTURE(length);
      CHECK_FALSE(load_by_every_door(dir, sample, sample.bytes.substr(0, length)).loaded);
    }
  }
}

TEST_CASE("damage: every byte changed in several ways") {
  const TempDir dir;
  for (const Sample& sample : samples()) {
    CAPTURE(sample.file_name);
    for (std::size_t at = 0; at < sample.bytes.size(); ++at) {
      for (const unsigned flip : {0x01U, 0x08U, 0x20U, 0x80U, 0xFFU}) {
        std::string bytes = sample.bytes;
        bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ flip);
        const Outcome outcome = load_by_every_door(dir, sample, bytes);
        CAPTURE(at);
        CAPTURE(flip);
        if (sample.has_checksum) CHECK((!outcome.loaded || outcome.right));
      }
    }
  }
}

TEST_CASE("damage: random changes, cuts and doublings") {
  const TempDir dir;
  std::mt19937 random(20240229);  // NOLINT(cert-msc51-cpp): the same every time, on purpose
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (const Sample& sample : samples()) {
    for (int round = 0; round < 400; ++round) {
      std::string bytes = sample.bytes;
      for (std::size_t change = 0; change <= below(4); ++change) {
        const std::size_t at = below(bytes.size());
        const std::size_t length = below(9);
        switch (below(4)) {
          case 0:
            bytes[at] = static_cast<char>(below(256));
            break;
          case 1:
            bytes.replace(at, std::min(length, bytes.size() - at), std::string(length, '\xff'));
            break;
          case 2:
            bytes.erase(at, std::min(length, bytes.size() - 1 - at));
            break;
          default:
            bytes.insert(at, bytes.substr(below(bytes.size()), length * 4));
        }
      }
      load_by_every_door(dir, sample, bytes);
    }
  }
}

TEST_CASE("damage: label files of random bytes") {
  const TempDir dir;
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same every time, on purpose
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes += "\n\r a\xC3\xBC\xE2\xF0\x9F"[random() % 10];
    const std::string path = dir.write("labels.txt", bytes);
    error_of([&] { io::load_labels(path); });
  }
}

}  // namespace
}  // namespace attend::tests
