// Contract 10 for what is prepared or appended: every mistake names the argument, what it was and what was expected,
// and leaves what is prepared as it was.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/ready.h"

namespace attend::tests {
namespace {

using Parts = std::vector<std::string>;
using Lengths = TensorView<const std::int32_t>;

struct KeyMistake {
  const char* name;
  std::function<void(KeyInputs& in)> make;
  Parts parts;
};

// Mistakes in what is to be prepared, alike in prepare and in append.
std::vector<KeyMistake> key_mistakes(std::int64_t key_size) {
  static const std::int32_t ones[] = {1, 1, 1, 1, 1, 1}, negative[] = {2, -1}, large[] = {10, 3};
  static const std::int32_t smallest[] = {1, std::numeric_limits<std::int32_t>::min()};
  static const std::int32_t per_query[] = {1, 2, 3, 4, 5, 77};
  const std::string size = std::to_string(key_size);
  return {
      {"no keys", [](KeyInputs& in) { in.keys = {}; }, {"keys", "not given"}},
      {"nothing at all", [](KeyInputs& in) { in = {}; }, {"keys", "not given"}},
      {"keys of rank 2",
       [](KeyInputs& in) {
         in.keys = {zeros(), {9, 8}};
       },
       {"keys", "(9, 8)", size}},
      {"keys of another size",
       [](KeyInputs& in) {
         in.keys = {zeros(), {2, 9, 48}};
       },
       {"keys", "(2, 9, 48)", size}},
      {"keys at null",
       [=](KeyInputs& in) {
         in.keys = {nullptr, {2, 9, key_size}};
       },
       {"keys", "null"}},
      {"keys' innermost stride",
       [=](KeyInputs& in) {
         in.keys = {zeros(), {2, 9, key_size}, {500, 50, 2}};
       },
       {"keys", "(500, 50, 2)", "1"}},
      {"values of another size",
       [](KeyInputs& in) {
         in.values = {zeros(), {2, 9, 6}};
       },
       {"values", "(2, 9, 6)", "(2, 9, 5)"}},
      {"values of another number",
       [](KeyInputs& in) {
         in.values = {zeros(), {2, 8, 5}};
       },
       {"values", "(2, 8, 5)", "(2, 9, 5)"}},
      {"values of another batch",
       [](KeyInputs& in) {
         in.values = {zeros(), {1, 9, 5}};
       },
       {"values", "(1, 9, 5)", "(2, 9, 5)"}},
      {"values' innermost stride",
       [](KeyInputs& in) {
         in.values = {zeros(), {2, 9, 5}, {500, 50, -1}};
       },
       {"values", "(500, 50, -1)", "1"}},
      {"values that are not given and keys of another size",
       [](KeyInputs& in) { in.values = {}; },
       {"values (not given, so the keys)", size, "5"}},
      {"batch beyond the plan",
       [=](KeyInputs& in) {
         in.keys = {zeros(), {3, 9, key_size}};
         in.values = {zeros(), {3, 9, 5}};
         in.valid_lens = {};
       },
       {"batch", "3", "2"}},
      {"more keys than planned",
       [=](KeyInputs& in) {
         in.keys = {zeros(), {2, 21, key_size}};
         in.values = {zeros(), {2, 21, 5}};
       },
       {"num_keys", "21", "20"}},
      {"negative length", [](KeyInputs& in) { in.valid_lens = Lengths(negative, {2}); }, {"valid_lens[1]", "-1", "9"}},
      {"smallest length", [](KeyInputs& in) { in.valid_lens = Lengths(smallest, {2}); }, {"valid_lens", "-2147483648"}},
      {"length beyond N", [](KeyInputs& in) { in.valid_lens = Lengths(large, {2}); }, {"valid_lens[0]", "10", "9"}},
      {"length beyond N per query",
       [](KeyInputs& in) {
         in.valid_lens = Lengths(per_query, {2, 3});
       },
       {"valid_lens[1, 2]", "77", "9"}},
      {"lengths of another batch", [](KeyInputs& in) { in.valid_lens = Lengths(ones, {3}); }, {"valid_lens", "(3)"}},
      {"lengths of another batch per query",
       [](KeyInputs& in) {
         in.valid_lens = Lengths(ones, {3, 2});
       },
       {"valid_lens", "(3, 2)"}},
      {"lengths of rank 3",
       [](KeyInputs& in) {
         in.valid_lens = Lengths(ones, {2, 3, 1});
       },
       {"valid_lens", "(2, 3, 1)"}},
      {"lengths at null", [](KeyInputs& in) { in.valid_lens = Lengths(nullptr, {2}); }, {"valid_lens", "null"}},
  };
}

}  // namespace

TEST_CASE("contract 10: mistakes in what is prepared or appended are named and change nothing") {
  for (const Layer layer : kAllLayers) {
    if (layer == Layer::kDotHeads || layer == Layer::kGaussianHeads) continue;
    Ready ready(layer);
    Workspace workspace(ready.plan);
    for (const KeyMistake& mistake : key_mistakes(ready.c.key_size())) {
      INFO(layer_name(layer), ": ", mistake.name);
      KeyInputs in = key_inputs(ready.c.inputs());
      mistake.make(in);
      for (const bool append : {false, true}) {
        const std::string message = error_message([&] {
          append ? ready.plan.append(in, ready.prepared.keys, workspace)
                 : ready.plan.prepare(in, ready.prepared.keys, workspace);
        });
        CHECK(missing_parts(message, mistake.parts) == "");
        CHECK(message.find('\n') == std::string::npos);
      }
      CHECK(ready.is_unchanged());
    }
  }
}

TEST_CASE("contract 10: heads of keys and values that are split already") {
  for (const Layer layer : {Layer::kDotHeads, Layer::kGaussianHeads}) {
    Ready ready(layer);
    KeyInputs in = key_inputs(ready.c.inputs());
    in.keys = {zeros(), {2, 9, 8}};
    CHECK(missing_parts(error_message([&] { prepare(ready.plan, in, ready.prepared.keys); }),
                        {"keys", "(2, 9, 8)", "3"}) == "");
    in.keys = {zeros(), {2, 4, 9, 8}};
    CHECK(missing_parts(error_message([&] { append(ready.plan, in, ready.prepared.keys); }),
                        {"keys", "(2, 4, 9, 8)", "3"}) == "");
    CHECK(ready.is_unchanged());
  }
}

TEST_CASE("contract 10: what is appended must fit behind what is there") {
  for (const Layer layer : kAllLayers) {
    INFO(layer_name(layer));
    Ready ready(layer);
    const LayerCase& c = ready.c;
    const LayerCase other({.layer = layer, .batch = 1, .num_keys = 2, .lens = Lens::kNone});
    CHECK(missing_parts(error_message([&] { append(ready.plan, key_inputs(other.inputs()), ready.prepared.keys); }),
                        {"keys", "1", "batch", "2", "prepared"}) == "");
    const LayerCase many({.layer = layer, .num_keys = 12, .lens = Lens::kNone});
    CHECK(missing_parts(error_message([&] { append(ready.plan, key_inputs(many.inputs()), ready.prepared.keys); }),
                        {"num_keys", "12", "at most 11", "20", "9"}) == "");
    CHECK(ready.is_unchanged());
    PoisonedKeys empty(ready.plan);
    CHECK(missing_parts(error_message([&] { append(ready.plan, key_inputs(c.inputs()), empty.keys); }),
                        {"prepared holds nothing, expected keys that were prepared first"}) == "");
    CHECK(empty.keys.batch() == 0);
    append(ready.plan, key_inputs(LayerCase({.layer = layer, .num_keys = 11, .lens = Lens::kNone}).inputs()),
           ready.prepared.keys);  // the last that fit
    CHECK(ready.prepared.keys.num_keys() == 20);
    CHECK(missing_parts(error_message([&] { append(ready.plan, piece_of(c.inputs(), 0, 1), ready.prepared.keys); }),
                        {"num_keys", "1", "at most 0", "20"}) == "");
    CHECK(ready.prepared.keys.num_keys() == 20);
  }
}

TEST_CASE("contract 10: a workspace too small to prepare, memory too small to hold what is prepared") {
  for (const Layer layer : kAllLayers) {
    INFO(layer_name(layer));
    Ready ready(layer);
    Workspace small(ready.plan.workspace_bytes() - 1);
    const Parts parts = {"workspace", std::to_string(ready.plan.workspace_bytes() - 1),
                         std::to_string(ready.plan.workspace_bytes())};
    const KeyInputs keys = key_inputs(ready.c.inputs());
    CHECK(missing_parts(error_message([&] { ready.plan.prepare(keys, ready.prepared.keys, small); }), parts) == "");
    CHECK(missing_parts(error_message([&] { ready.plan.append(keys, ready.prepared.keys, small); }), parts) == "");
    CHECK(ready.is_unchanged());
    const std::size_t bytes = ready.plan.prepared_bytes();
    for (const std::size_t given : {std::size_t{0}, std::size_t{1}, bytes - 1}) {
      std::vector<std::byte> memory(given + Workspace::kAlignment);
      auto* start = memory.data() + Workspace::kAlignment - 1;
      start -= reinterpret_cast<std::uintptr_t>(start) % Workspace::kAlignment;
      CHECK(missing_parts(error_message([&] { PreparedKeys(ready.plan, std::span<std::byte>(start, given)); }),
                          {"memory", std::to_string(given), std::to_string(bytes), "prepared_bytes()"}) == "");
    }
    CHECK(missing_parts(error_message([&] { PreparedKeys(ready.plan, std::span<std::byte>()); }),
                        {"memory", "0", std::to_string(bytes)}) == "");
  }
}

}  // namespace attend::tests
