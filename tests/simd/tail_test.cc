// LoadTail and StoreTail on every target, for every count, at both sides of an unmapped page.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/for_each_target.h"
#include "tests/support/guard_page.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/simd/tail_test.cc"
#include <hwy/foreach_target.h>  // before highway.h
#include <hwy/highway.h>

#include "engine/kernels/for_target.h"
#include "engine/simd/tail-inl.h"

#ifndef ATTEND_TESTS_SIMD_TAIL_TEST_ONCE_
#define ATTEND_TESTS_SIMD_TAIL_TEST_ONCE_
namespace attend {
struct TailFunctions {
  void (*load)(const float* p, std::size_t n, float* lanes);  // LoadTail(d, p, n)
  void (*load_filled)(const float* p, std::size_t n, float fill, float* lanes);
  void (*store)(const float* lanes, float* p, std::size_t n);
  std::size_t lanes;
};
}  // namespace attend
#endif

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace HWY_NAMESPACE {
namespace {

void Load(const float* p, std::size_t n, float* lanes) {
  const hn::ScalableTag<float> d;
  hn::StoreU(LoadTail(d, p, n), d, lanes);
}

void LoadFilled(const float* p, std::size_t n, float fill, float* lanes) {
  const hn::ScalableTag<float> d;
  hn::StoreU(LoadTail(d, p, n, fill), d, lanes);
}

void Store(const float* lanes, float* p, std::size_t n) {
  const hn::ScalableTag<float> d;
  StoreTail(hn::LoadU(d, lanes), d, p, n);
}

TailFunctions Functions() {
  TailFunctions functions;
  functions.load = &Load;
  functions.load_filled = &LoadFilled;
  functions.store = &Store;
  functions.lanes = hn::Lanes(hn::ScalableTag<float>());
  return functions;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace attend
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attend::tests {
namespace {

TailFunctions functions_of(std::int64_t target) { ATTEND_RETURN_FOR_TARGET(target, Functions); }

TEST_CASE("LoadTail reads n elements and fills the rest") {
  for_each_target([](const Target& target) {
    const TailFunctions tail = functions_of(target.id());
    for (const Guard guard : {Guard::kEnd, Guard::kBegin}) {
      for (std::size_t n = 0; n <= tail.lanes; ++n) {
        GuardedArray<float> p(n, guard);
        for (std::size_t i = 0; i < n; ++i) p[i] = 1.0f + static_cast<float>(i);
        std::vector<float> zero(tail.lanes, -1.0f), filled(tail.lanes, -1.0f);
        tail.load(p.data(), n, zero.data());
        tail.load_filled(p.data(), n, -7.0f, filled.data());
        for (std::size_t i = 0; i < tail.lanes; ++i) {
          INFO("lane ", i, " of ", n);
          CHECK(zero[i] == (i < n ? 1.0f + static_cast<float>(i) : 0.0f));
          CHECK(filled[i] == (i < n ? 1.0f + static_cast<float>(i) : -7.0f));
        }
      }
    }
  });
}

TEST_CASE("StoreTail writes n elements and nothing else") {
  for_each_target([](const Target& target) {
    const TailFunctions tail = functions_of(target.id());
    std::vector<float> lanes(tail.lanes);
    for (std::size_t i = 0; i < tail.lanes; ++i) lanes[i] = 1.0f + static_cast<float>(i);
    for (std::size_t n = 0; n <= tail.lanes; ++n) {
      for (const Guard guard : {Guard::kEnd, Guard::kBegin}) {
        GuardedArray<float> p(n, guard);
        tail.store(lanes.data(), p.data(), n);
        for (std::size_t i = 0; i < n; ++i) CHECK(p[i] == lanes[i]);
      }
      std::vector<float> wide(tail.lanes + 1, -1.0f);
      tail.store(lanes.data(), wide.data(), n);
      for (std::size_t i = 0; i < wide.size(); ++i) CHECK(wide[i] == (i < n ? lanes[i] : -1.0f));
    }
  });
}

}  // namespace
}  // namespace attend::tests
#endif
