// Seeded data, names and counters that all benchmarks share.
#ifndef ATTEND_BENCH_SUPPORT_H_
#define ATTEND_BENCH_SUPPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "attend/target.h"
#include "attend/tensor.h"

namespace attend::bench {

// FLOP/s of one core with that target's widest vectors, measured once per process (kernels/machine_bench.cc).
double fma_peak(const Target& target);
// Bytes/s that one core reads in order from `bytes` of memory, measured once per process, size and target (likewise).
double read_bandwidth(std::size_t bytes, const Target& target = Target::best());

// Uniform numbers in [0, 1), the same for the same seed on every machine (splitmix64).
class Uniform {
 public:
  explicit Uniform(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  double next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

 private:
  std::uint64_t state_;
};

// Uniform numbers of mean 0 and the given standard deviation.
inline void fill(float* data, std::size_t count, std::uint64_t seed, float deviation = 1.0f) {
  Uniform uniform(seed);
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = deviation * static_cast<float>((2 * uniform.next() - 1) * 1.7320508075688772);
  }
}

// Valid lengths, uniform in 1..num_keys. kLensSeed: of cases whose name says no more than that they have some.
inline constexpr std::uint64_t kLensSeed = 7;
inline std::vector<std::int32_t> random_lens(std::int64_t count, std::int64_t num_keys, std::uint64_t seed) {
  Uniform uniform(seed);
  std::vector<std::int32_t> lens;
  for (std::int64_t i = 0; i < count; ++i) {
    lens.push_back(1 + static_cast<std::int32_t>(uniform.next() * static_cast<double>(num_keys)));
  }
  return lens;
}

// Memory from the border of a cache line on, as other libraries hold theirs: a row of 256 bytes that begins within a
// line touches five, which cost up to a tenth of the time (dot/b64_h8_m32_n32_d64). dot/*_off4 measures such rows.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  LineAllocator() = default;
  template <class U>
  explicit LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* data, std::size_t) { ::operator delete(data, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
};
using AlignedVector = std::vector<float, LineAllocator<float>>;

// Dense, row-major.
struct AlignedTensor {
  std::vector<std::int64_t> sizes;
  AlignedVector data;
  std::size_t off = 0;  // elements from the line's border to the first

  TensorView<const float> view() const {
    return TensorView<const float>(data.data() + off, std::span<const std::int64_t>(sizes));
  }
  TensorView<float> view() { return TensorView<float>(data.data() + off, std::span<const std::int64_t>(sizes)); }

  void move_off_line(std::size_t elements) {
    data.insert(data.begin(), elements, 0.0f);
    off += elements;
  }
};

inline AlignedTensor random_tensor(std::vector<std::int64_t> sizes, std::uint64_t seed, float deviation = 1.0f) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  AlignedTensor tensor{std::move(sizes), AlignedVector(static_cast<std::size_t>(count))};
  fill(tensor.data.data(), tensor.data.size(), seed, deviation);
  return tensor;
}

// Floats on a cache line's border, as kernels want their panels and tiles.
class AlignedFloats {
 public:
  explicit AlignedFloats(std::size_t count, std::uint64_t seed = 1, float deviation = 1.0f)
      : data_(static_cast<float*>(::operator new(count * sizeof(float), kAlignment))), size_(count) {
    fill(data_, count, seed, deviation);
  }
  ~AlignedFloats() { ::operator delete(data_, kAlignment); }
  AlignedFloats(const AlignedFloats&) = delete;
  AlignedFloats& operator=(const AlignedFloats&) = delete;

  float* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  float* data_;
  std::size_t size_;
};

// family/case/target. run(state) is called several times per measurement: what is costly to build belongs into a Lazy.
template <class Run>
benchmark::internal::Benchmark* register_case(const std::string& name, const std::string& target, Run&& run) {
  return benchmark::RegisterBenchmark((name + "/" + target).c_str(), std::forward<Run>(run));
}

// Built on first use, so that a filtered run pays only for what it runs. For one thread.
template <class T>
class Lazy {
 public:
  template <class Make>
  const T& get(const Make& make) {
    if (value_ == nullptr) value_.reset(new T(make()));  // no make_unique: T need not be movable
    return *value_;
  }

 private:
  std::unique_ptr<T> value_;
};

// per_second: the console adds "/s" to it; so GFLOPS is 1e9 floating-point operations in each second of CPU time.
inline benchmark::Counter per_second(double amount) {
  return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
}
// Seconds of one of `count` elements; the console shows 5.5e-11 s as "55ps".
inline benchmark::Counter seconds_each(double count) {
  return benchmark::Counter(count, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// What is timed: run() again and again, once before untimed. In a virtual machine the first run after memory was
// released may wait for the address of each of its pages: with it, a mean of ten runs was 11.4 ms, and is 2.2 without
// (bench: dot/b8_h32_kv8_m1_n1024_d128, Zen 5).
template <class Run>
void measure(benchmark::State& state, const Run& run) {
  run();
  for (auto _ : state) {
    run();
    benchmark::ClobberMemory();
  }
}

// The console shows it in KiB and MiB.
inline benchmark::Counter bytes(std::size_t count) {
  return benchmark::Counter(static_cast<double>(count), benchmark::Counter::kDefaults, benchmark::Counter::kIs1024);
}

// GFLOPS = flops / time / 1e9, and peak_percent = 100 * flops / time / (threads * fma_peak(target)).
inline void count_flops(benchmark::State& state, double flops, const Target& target, int threads = 1) {
  state.counters["GFLOPS"] = per_second(flops * 1e-9);
  state.counters["peak_percent"] = per_second(100 * flops / fma_peak(target) / threads);
}

// intensity = flops / bytes, where bytes are what any way of computing it must move: each input read once, each output
// written once. What is read again, because it did not fit into a cache, shows as distance from the roof.
inline void count_intensity(benchmark::State& state, double flops, double compulsory_bytes) {
  state.counters["intensity"] = flops / compulsory_bytes;
}

// GB = bytes / time / 1e9, and read_percent = 100 * bytes / time / (threads * read_bandwidth(bytes)): what bounds
// moving that many bytes once, from whichever level of the memory holds them, if cores did not share it.
inline void count_bytes(benchmark::State& state, double bytes_moved, int threads = 1) {
  state.counters["GB"] = per_second(bytes_moved * 1e-9);
  state.counters["read_percent"] =
      per_second(100 * bytes_moved / read_bandwidth(static_cast<std::size_t>(bytes_moved)) / threads);
}

}  // namespace attend::bench

#endif  // ATTEND_BENCH_SUPPORT_H_
