// Reading .npz: zip archives from numpy and from liars.
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "attend/io.h"
#include "tests/tools/io/build_files.h"

namespace attend::tests {
namespace {

using Sizes = std::vector<std::int64_t>;

const std::vector<float> kSixValues{0, 1, 2, 3, 4, 5};

std::string six_npy() { return npy_array("<f4", "(2, 3)", f32_bytes(kSixValues)); }

void check_six(const std::string& bytes, const std::string& name = "x") {
  const TempDir dir;
  const std::string path = dir.write("a.npz", bytes);
  const Tensor tensor = io::load_tensor(path + ":" + name);
  CHECK(tensor.sizes == Sizes{2, 3});
  CHECK(tensor.data == kSixValues);
  CHECK(io::load_sizes(path + ":" + name) == Sizes{2, 3});
  CHECK(io::load(path).contains(name));
}

std::string error_of_npz(const std::string& bytes, const std::string& name = "x") {
  const TempDir dir;
  const std::string path = dir.write("a.npz", bytes);
  return error_in(dir, [&] { io::load_tensor(path + ":" + name); });
}

// A good archive of one deflated member whose parts the given function has spoiled.
template <class Spoil>
std::string error_of_spoilt(Spoil spoil) {
  ZipPart local = deflated_part("x.npy", six_npy());
  ZipPart central = local;
  spoil(local, central);
  return error_of_npz(zip_file({local}, {central}));
}

TEST_CASE("npz: numpy's files, stored, deflated and streamed") {
  check_six(numpy_npz());
  check_six(numpy_compressed_npz());
  check_six(streamed_npz());
  const TempDir dir;
  CHECK(io::load_lengths(dir.write("a.npz", numpy_compressed_npz()) + ":n").data == std::vector<std::int32_t>{3, 1});
}

TEST_CASE("npz: hand-made, with zip64 records, a comment, colons and folders in names") {
  check_six(zip_file({stored_part("x.npy", six_npy())}));
  check_six(zip_file({deflated_part("x.npy", six_npy())}));
  const std::vector<ZipPart> parts{stored_part("readme.txt", "hello"), stored_part("block/0:w.npy", six_npy())};
  check_six(zip_file(parts, parts, "a comment with PK\x05\x06 in it, and then some more text"), "block/0:w");
  ZipPart part = deflated_part("x.npy", six_npy());
  part.zip64 = true;
  check_six(zip_file({part}));
  const std::string body = zip_local(part) + part.data;
  const std::string directory = zip_entry(part, 0);
  check_six(body + directory + zip_end64(1, directory.size(), body.size()));
}

TEST_CASE("npz: a member beyond 4 GiB, in a file with a hole") {
  const TempDir dir;
  ZipPart hole = stored_part("hole.npy", "");
  hole.num_bytes = hole.compressed_bytes = std::uint64_t{5} << 30U;
  hole.zip64 = true;
  ZipPart part = stored_part("x.npy", six_npy());
  part.zip64 = true;
  const std::uint64_t offset = zip_local(hole).size() + hole.num_bytes;
  const std::string body = zip_local(part) + part.data;
  const std::string directory = zip_entry(hole, 0) + zip_entry(part, offset);
  const std::string path = dir.write("a.npz", zip_local(hole));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file << body << directory << zip_end64(2, directory.size(), offset + body.size());
  file.close();
  REQUIRE(file.good());
  CHECK(io::load_tensor(path + ":x").data == kSixValues);
  CHECK(io::load(path, "x").names() == std::vector<std::string>{""});
}

TEST_CASE("npz: names") {
  CHECK(error_of_npz(numpy_compressed_npz(), "y") == "a.npz: no tensor 'y'; there are: 'n', 'x'");
  CHECK(error_of_npz(numpy_npz(), "x.npy") == "a.npz: no tensor 'x.npy'; there are: 'x'");
  CHECK(error_of_npz(zip_file({stored_part("evil\x1b]0;\n.npy", six_npy())})) ==
        "a.npz: no tensor 'x'; there are: 'evil\\x1b]0;\\x0a'");
  std::vector<ZipPart> many;
  for (char c = 'a'; c < 'k'; ++c) many.push_back(stored_part(std::string(1, c) + ".npy", ""));
  CHECK(error_of_npz(zip_file(many)) ==
        "a.npz: no tensor 'x'; there are: 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 2 more");
  CHECK(error_of_npz(zip_file({stored_part("x.npy", six_npy()), stored_part("x.npy", six_npy())})) ==
        "a.npz: zip directory has two members named 'x.npy'");
  // The file ends at the first ending of one.
  check_six(zip_file({stored_part("x.safetensors:y.npy", six_npy())}), "x.safetensors:y");
  check_six(zip_file({stored_part("b.npz:y.npy", six_npy())}), "b.npz:y");
  const TempDir dir;
  const std::string path = dir.write("a.npz", numpy_npz());
  CHECK(error_in(dir, [&] { io::load_tensor(path); }) ==
        "a.npz: holds tensors by name, expected 'file:name' with one of: 'x'");
}

TEST_CASE("npz: load by prefix converts floats and leaves out the rest") {
  const TempDir dir;
  const std::string path = dir.write("a.npz", zip_file({
                                                  stored_part("enc.w.npy", six_npy()),
                                                  stored_part("enc.h.npy", npy_array("<f2", "(1,)", le16(0x3C00))),
                                                  stored_part("enc.n.npy", npy_array("<i8", "(1,)", le64(3))),
                                                  stored_part("enc.o.npy", npy_array("|O", "(1,)", "pickle")),
                                                  stored_part("enc.txt", "not an array"),
                                                  stored_part("dec.w.npy", "broken, but not asked for"),
                                              }));
  io::Notices notices;
  const Parameters parameters = io::load(path, "enc.", &notices);
  CHECK(parameters.names() == std::vector<std::string>{"h", "w"});
  CHECK(*parameters.find("h").data() == 1.0F);
  CHECK(notices == io::Notices{
                       path + ": tensor 'enc.h': float16 converted to float32",
                       path + ": tensor 'enc.n': int64 left out, expected floats",
                       path + ": tensor 'enc.o': Python object dtype '|O' left out, expected floats",
                   });
  const auto error = [&](const char* prefix) { return error_in(dir, [&] { io::load(path, prefix); }); };
  CHECK(error("none.") ==
        "a.npz: no tensor whose name starts with 'none.'; there are: 'dec.w', 'enc.h', 'enc.n', "
        "'enc.o', 'enc.w'");
  CHECK(error("enc.n") ==
        "a.npz, prefix 'enc.n': no float tensors; a.npz: tensor 'enc.n': int64 left out, expected floats");
  CHECK(error("dec.") == "a.npz: tensor 'dec.w': is not a .npy file: it does not begin with '\\x93NUMPY'");
  CHECK(error_in(dir, [&] { io::load(dir.path("x.npy")); }) ==
        "x.npy: unknown file type, expected .npz or .safetensors");
  CHECK(error_of([&] { io::load(dir.write("e.npz", zip_file({}))); }).ends_with("e.npz: no tensor; there are: none"));
}

TEST_CASE("npz: not a zip file") {
  CHECK(error_of_npz("") == "a.npz: is not a zip file: 0 bytes long");
  CHECK(error_of_npz(std::string(100, 'x')) ==
        "a.npz: is not a zip file or is truncated: no end of central directory record at its end");
  CHECK(error_of_npz(numpy_npz() + "x") ==
        "a.npz: is not a zip file or is truncated: no end of central directory record at its end");
  CHECK(error_of_npz("x" + numpy_npz()).find("expected to end at byte") != std::string::npos);
}

TEST_CASE("npz: a directory that lies about itself") {
  const ZipPart part = stored_part("x.npy", six_npy());
  const std::string body = zip_local(part) + part.data;
  const std::string directory = zip_entry(part, 0);
  const auto error = [&](const std::string& end) { return error_of_npz(body + directory + end); };
  CHECK(error(zip_end(2, directory.size(), body.size())) == "a.npz: zip directory has 1 entries, expected 2");
  CHECK(error(zip_end(1, directory.size() + 1, body.size())).find("expected to end at byte") != std::string::npos);
  CHECK(error(zip_end(1, directory.size(), body.size() + 1)).find("expected to end at byte") != std::string::npos);
  CHECK(error(zip_end(1, 0xFFFFFFF0, 0xFFFFFFF0)).find("expected to end at byte") != std::string::npos);
  CHECK(error(zip_end(1, directory.size() + body.size(), 0)) ==
        "a.npz: zip directory has an entry with a wrong signature");
  std::string disks = zip_end(1, directory.size(), body.size());
  disks[4] = 1;
  CHECK(error(disks) == "a.npz: is one part of a zip archive over several disks, expected a whole one");
  CHECK(error(zip_end64(1, directory.size(), body.size() + 1)).find("zip64 end record at byte") != std::string::npos);
  std::string disagreeing = zip_end64(1, directory.size(), body.size());
  disagreeing[disagreeing.size() - 10] = 7;
  CHECK(error(disagreeing) == "a.npz: zip64 end record and zip end record disagree");
  for (const std::uint64_t lie : {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{1} << 63U}) {
    CHECK(error(zip_end64(lie, directory.size(), body.size())) ==
          "a.npz: zip directory has 1 entries, expected " + std::to_string(lie));
  }
}

TEST_CASE("npz: local header and directory disagree") {
  const std::string differ = "a.npz: tensor 'x': zip local header and zip directory differ in the ";
  using Part = ZipPart;
  CHECK(error_of_spoilt([](Part& local, Part&) { local.name = "y.npy"; }) == differ + "name: 'y.npy' and 'x.npy'");
  CHECK(error_of_spoilt([](Part& local, Part&) { local.crc ^= 1U; }) == differ + "CRC-32");
  CHECK(error_of_spoilt([](Part& local, Part&) { local.num_bytes += 1; }) == differ + "size");
  CHECK(error_of_spoilt([](Part& local, Part&) { local.compressed_bytes -= 1; }) == differ + "compressed size");
  CHECK(error_of_spoilt([](Part& local, Part&) { local.method = 0; }) == differ + "compression method");
  CHECK(error_of_spoilt([](Part& local, Part&) { local.flags = 8; }) == differ + "flags");
  CHECK(error_of_spoilt([](Part& local, Part& central) {
          local.flags = central.flags = 8;
          local.crc = 5;
        }) == differ + "CRC-32");
  CHECK(error_of_spoilt([](Part& local, Part& central) {
          local.flags = central.flags = 8;
          local.crc = 0;
          local.num_bytes = local.compressed_bytes = 0;
        }) == "no error");
}

TEST_CASE("npz: sizes that lie") {
  const auto both = [](auto change) {
    return error_of_spoilt([&](ZipPart& local, ZipPart& central) {
      change(local);
      change(central);
    });
  };
  CHECK(both([](ZipPart& p) { p.crc ^= 1U; }).find("the data is damaged") != std::string::npos);
  CHECK(both([](ZipPart& p) { p.num_bytes += 4; }) ==
        "a.npz: tensor 'x': 28 bytes of data, expected 24 for float32 of shape (2, 3)");
  CHECK(both([](ZipPart& p) { p.num_bytes = 1'000'000'000; }) ==
        "a.npz: tensor 'x': claims that 99 deflated bytes hold 1000000000 bytes, expected at most 1032 times as many");
  CHECK(both([](ZipPart& p) { p.compressed_bytes += 100'000; }).find("where something else begins") !=
        std::string::npos);
  CHECK(both([](ZipPart& p) { p.compressed_bytes -= 10; }) == "a.npz: tensor 'x': deflated data is truncated");
  CHECK(both([](ZipPart& p) { p.method = 0; }) ==
        "a.npz: tensor 'x': stored zip member of 94 bytes takes 99, expected as many");
  CHECK(both([](ZipPart& p) { p.method = 12; }) ==
        "a.npz: tensor 'x': zip compression method 12, expected 0 (stored) or 8 (deflated)");
  CHECK(both([](ZipPart& p) { p.flags = 1; }) == "a.npz: tensor 'x': zip member is encrypted, expected a plain one");
  CHECK(both([](ZipPart& p) { p.data[0] = '\x07'; }) == "a.npz: tensor 'x': deflated data is corrupt");
}

TEST_CASE("npz: a member that inflates beyond, or short of, what the directory states") {
  ZipPart beyond = deflated_part("x.npy", six_npy() + "a bomb begins like this");
  beyond.num_bytes = six_npy().size();
  CHECK(error_of_npz(zip_file({beyond})) ==
        "a.npz: tensor 'x': deflated data goes on beyond the size that the zip directory states");
  ZipPart short_of = deflated_part("x.npy", six_npy().substr(0, six_npy().size() - 4));
  short_of.num_bytes = six_npy().size();
  CHECK(error_of_npz(zip_file({short_of})) ==
        "a.npz: tensor 'x': deflated data ends 4 bytes before the size that the zip directory states");
  ZipPart unused = deflated_part("x.npy", six_npy());
  unused.data += "junk";
  unused.compressed_bytes += 4;
  CHECK(error_of_npz(zip_file({unused})) == "a.npz: tensor 'x': 4 bytes follow the deflated data, expected none");
}

TEST_CASE("npz: members that overlap each other or the directory") {
  const ZipPart part = stored_part("x.npy", six_npy());
  ZipPart twin = part;
  twin.name = "y.npy";
  const std::string body = zip_local(part) + part.data;
  const std::string same_offset = zip_entry(part, 0) + zip_entry(twin, 0);
  CHECK(error_of_npz(body + same_offset + zip_end(2, same_offset.size(), body.size()))
            .find("where something else begins") != std::string::npos);
  for (const std::uint64_t offset : {std::uint64_t{1}, std::uint64_t{0xFFFFFFF0}}) {
    const std::string directory = zip_entry(part, offset);
    CHECK(error_of_npz(body + directory + zip_end(1, directory.size(), body.size()))
              .find("where something else begins") != std::string::npos);
  }
  ZipPart huge = part;
  huge.zip64 = true;
  huge.compressed_bytes = huge.num_bytes = ~std::uint64_t{0} - 10;
  CHECK(error_of_npz(zip_file({huge})).find("where something else begins") != std::string::npos);
  // A local header may have a longer extra field than the directory says, but not so long that the data leaves its
  // place.
  std::string bytes = zip_file({part});
  bytes[28] = 100;
  CHECK(error_of_npz(bytes).find("zip member's data begins at byte 135, expected") != std::string::npos);
}

}  // namespace
}  // namespace attend::tests
