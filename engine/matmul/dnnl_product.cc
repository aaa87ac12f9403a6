#include "engine/matmul/dnnl_product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "engine/base/checked.h"
#include "engine/base/message.h"
#include "engine/matmul/dnnl_compat.h"
#include "engine/matmul/is_product.h"
#include "engine/matmul/row_counts.h"

namespace attend::matmul {
namespace {

using dnnl::memory;
constexpr auto kF32 = memory::data_type::f32;

// Row counts that primitives are made for. The first decides the packing, and the bits that the others must match: were
// it 256, a machine where large products sum in another order would be left with that count alone. (oneDNN's jitted
// gemm for AVX2 does so from 512 rows of 768 on.) 256, 64 and 16 are 4 modulo 6, the one remainder besides 0 for which
// the 6-row kernels of that gemm treat all rows alike at every size. One row alone is for where no other count will do:
// that gemm sums its last columns in another order, which shows in one row of a thousand for some weights.
constexpr std::array<std::size_t, 7> kRowCounts = {DnnlProduct::kRowBlock, 48, 16, 4, 128, DnnlProduct::kMaxRows, 1};
// Weights above this, which 2 MiB of L2 do not hold beside the rows, get those above a block too. Layers have our own
// kernel for them, so this is for those who are held to oneDNN (linear/*/oneDNN): calls of 256 rows against 64 give 768
// x 768 +6 %, 512 x 1024 +4 %, 640 x 640 +1 %, 512 x 512 -1 %.
constexpr std::size_t kWeightsForManyRows = std::size_t{3} << 19;

memory::dim dim(std::size_t n) { return static_cast<memory::dim>(n); }

// One engine and one stream for the process: both are stateless handles on the CPU runtime.
const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
const dnnl::stream& cpu_stream() {
  static const dnnl::stream stream(cpu_engine());
  return stream;
}

// Library-mode scratchpads belong to the creating thread; executing elsewhere may crash (oneDNN developer guide).
dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// Plain loops, by their own name or by that of the jitted gemm, which oneDNN has for x86 alone: elsewhere "gemm:jit"
// is its reference gemm.
bool is_reference(const dnnl::matmul::primitive_desc& descriptor) {
  const std::string info = descriptor.impl_info_str();
#if defined(__x86_64__)
  constexpr bool kHasJittedGemm = true;
#else
  constexpr bool kHasJittedGemm = false;
#endif
  return info.find("ref") != std::string::npos || (!kHasJittedGemm && info.find("gemm:jit") != std::string::npos);
}

// The memory objects of one call in flight: oneDNN passes pointers through heap objects, which are therefore made
// ahead.
struct CallSlot {
  std::vector<memory> sources, destinations;  // one per row count
  memory scratchpad;
  std::atomic<bool> is_taken{false};
  CallSlot* next = nullptr;  // fixed once others see this one
};

// Calls that planning makes slots for, at most: some 10 KB each.
constexpr int kMaxPrepared = 256;

// A primitive for one row count.
struct RowsPrimitive {
  std::size_t rows;
  dnnl::matmul::primitive_desc descriptor;
  dnnl::matmul primitive;
};

// Numbers from -1 to 1 for rows that are tried.
class RandomNumbers {
 public:
  float next() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<std::int32_t>(state_)) * 0x1p-31f;
  }

 private:
  std::uint32_t state_ = 0x9E3779B9u;
};

// Rows that tell whether primitives agree, at a time.
constexpr std::size_t kProbes = 64;
struct Probes {
  std::vector<float> rows, expected;
  std::vector<std::byte> scratch;
  std::unique_ptr<CallSlot> slot;
};

}  // namespace

struct DnnlProduct::Impl {
  std::size_t in_size = 0, out_size = 0, scratch_bytes = 0;  // of oneDNN's own scratch
  std::string implementation;
  memory weights, bias;
  bool has_bias = false;
  bool is_right = true;                   // for the rows that were tried
  bool asks_for_threads = false;          // when it runs, not only when it is made
  std::vector<RowsPrimitive> primitives;  // largest first, once the constructor is through
  std::vector<std::size_t> counts;        // their rows
  std::size_t staged_rows = 0;            // the most that are staged at a time

  // All slots, the youngest first; a list that only grows, so that it is read without locks. A call takes one that is
  // free and puts it back; where there is none it adds another.
  mutable std::atomic<CallSlot*> slots{nullptr};
  // Free slots that no call is on its way to: a call that counts one off finds one, whatever others do meanwhile.
  mutable std::atomic<int> num_free{0};

  ~Impl() {
    for (CallSlot* slot = slots.load(); slot != nullptr;) delete std::exchange(slot, slot->next);
  }

  // Scratch: rows gathered, their results, oneDNN's own.
  std::size_t sources_bytes() const { return round_up(staged_rows * in_size * sizeof(float), 64); }
  std::size_t staging_bytes() const { return sources_bytes() + round_up(staged_rows * out_size * sizeof(float), 64); }

  bool multiply_dense(const float* source, float* destination, std::size_t num_rows, std::byte* scratch,
                      CallSlot& slot) const;
  void make_primitives(const memory::desc& packed_or_any, const char* name);
  bool execute(std::size_t index, const float* source, float* destination, std::byte* scratch, CallSlot& slot) const;
  std::unique_ptr<CallSlot> make_slot() const;
  CallSlot* add_slot(bool is_taken) const;
  CallSlot* take_slot() const noexcept;
  void put_back(CallSlot& slot) const noexcept;
  bool multiply_probes(std::size_t index, std::size_t shift, bool sets_expected, Probes& probes,
                       const char* name) const;
  void keep_row_independent(const char* name);
  bool tried_rows_are_right(TensorView<const float> W, TensorView<const float> bias, const char* name) const;
};

std::unique_ptr<CallSlot> DnnlProduct::Impl::make_slot() const {
  auto slot = std::make_unique<CallSlot>();
  for (const RowsPrimitive& p : primitives) {
    slot->sources.emplace_back(p.descriptor.src_desc(), cpu_engine(), nullptr);
    slot->destinations.emplace_back(p.descriptor.dst_desc(), cpu_engine(), nullptr);
  }
  const memory::desc scratch({dim(scratch_bytes)}, memory::data_type::u8, memory::format_tag::a);
  slot->scratchpad = memory(scratch, cpu_engine(), nullptr);
  return slot;
}

CallSlot* DnnlProduct::Impl::add_slot(bool is_taken) const {
  CallSlot* slot = make_slot().release();
  slot->is_taken.store(is_taken, std::memory_order_relaxed);
  slot->next = slots.load(std::memory_order_relaxed);
  while (!slots.compare_exchange_weak(slot->next, slot, std::memory_order_release, std::memory_order_relaxed)) {
  }
  if (!is_taken) num_free.fetch_add(1, std::memory_order_release);
  return slot;
}

// Null if another one cannot be made: the caller is a task, which must not throw.
CallSlot* DnnlProduct::Impl::take_slot() const noexcept try {
  int free = num_free.load(std::memory_order_relaxed);
  while (free > 0 &&
         !num_free.compare_exchange_weak(free, free - 1, std::memory_order_acquire, std::memory_order_relaxed)) {
  }
  if (free == 0) return add_slot(true);
  for (CallSlot* slot = nullptr;; slot = slot->next) {
    if (slot == nullptr) slot = slots.load(std::memory_order_acquire);
    if (slot->is_taken.load(std::memory_order_relaxed)) continue;
    if (!slot->is_taken.exchange(true, std::memory_order_acquire)) return slot;
  }
} catch (const std::exception&) {  // std::bad_alloc, dnnl::error
  return nullptr;
}

void DnnlProduct::Impl::put_back(CallSlot& slot) const noexcept {
  slot.is_taken.store(false, std::memory_order_release);
  num_free.fetch_add(1, std::memory_order_release);
}

void DnnlProduct::Impl::make_primitives(const memory::desc& any, const char* name) {
  const dnnl::primitive_attr attributes = user_scratchpad();
  const memory::desc bias_desc({1, dim(out_size)}, kF32, memory::format_tag::ab);
  memory::desc packed = any;
  const bool has_many_rows = in_size * out_size * sizeof(float) > kWeightsForManyRows;
  for (const std::size_t rows : kRowCounts) {
    if (rows > kRowBlock && !has_many_rows) continue;
    const memory::desc source({dim(rows), dim(in_size)}, kF32, memory::format_tag::ab);
    const memory::desc destination({dim(rows), dim(out_size)}, kF32, memory::format_tag::ab);
    dnnl::matmul::primitive_desc descriptor =
        matmul_descriptor(cpu_engine(), source, packed, has_bias ? &bias_desc : nullptr, destination, attributes);
    const std::string info = descriptor.impl_info_str();
    if (is_reference(descriptor)) {
      // The first row count decides the packing; another that cannot use it is simply not offered.
      if (!primitives.empty()) continue;
      fail(name, " (", out_size, ", ", in_size, "): oneDNN ", dnnl_version_text(),
           " offers only its reference implementation, ", info, ", which is refused; expected an optimised one");
    }
    if (primitives.empty()) {
      packed = descriptor.weights_desc();
      implementation = "oneDNN " + dnnl_version_text() + " " + info;
    }
    asks_for_threads = asks_for_threads || info.find("gemm") != std::string::npos;
    scratch_bytes = std::max(scratch_bytes, descriptor.scratchpad_desc().get_size());
    primitives.push_back({rows, descriptor, dnnl::matmul(descriptor)});
  }
}

// Multiplies every probe, the first one in place `shift`. Whether all results are the expected ones; or makes them so.
bool DnnlProduct::Impl::multiply_probes(std::size_t index, std::size_t shift, bool sets_expected, Probes& probes,
                                        const char* name) const {
  const std::size_t rows = primitives[index].rows;
  std::vector<float> source(rows * in_size), destination(rows * out_size);
  for (std::size_t first = 0; first < kProbes; first += rows) {
    const auto probe_at = [&](std::size_t row) { return (first + row + kProbes - shift) % kProbes; };
    for (std::size_t row = 0; row < rows; ++row) {
      std::copy_n(&probes.rows[probe_at(row) * in_size], in_size, &source[row * in_size]);
    }
    if (!execute(index, source.data(), destination.data(), probes.scratch.data(), *probes.slot)) {
      fail(name, ": oneDNN failed to run");
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const float* result = &destination[row * out_size];
      float* expected = &probes.expected[probe_at(row) * out_size];
      if (sets_expected) std::copy_n(result, out_size, expected);
      if (std::memcmp(result, expected, out_size * sizeof(float)) != 0) return false;
    }
  }
  return true;
}

// Keeps the row counts that give every result row the same bits wherever it stands and whatever stands beside it. Sums
// in another order often round alike, so that it takes many rows to tell: 64 at a time, new ones each time.
void DnnlProduct::Impl::keep_row_independent(const char* name) {
  const std::size_t num_rounds = std::clamp<std::size_t>(4096 / out_size, 2, 16);
  Probes probes{.rows = std::vector<float>(kProbes * in_size),
                .expected = std::vector<float>(kProbes * out_size),
                .scratch = std::vector<std::byte>(scratch_bytes),
                .slot = make_slot()};
  std::vector<bool> is_kept(primitives.size(), true);
  RandomNumbers numbers;
  for (std::size_t round = 0; round < num_rounds; ++round) {
    for (float& x : probes.rows) x = numbers.next();
    // The first one that treats its rows alike sets the bits that the others must match.
    bool has_expected = false;
    for (std::size_t p = 0; p < primitives.size(); ++p) {
      if (!is_kept[p] || primitives[p].rows == 1) continue;
      if (!has_expected) multiply_probes(p, 0, true, probes, name);
      is_kept[p] = multiply_probes(p, 1 + round, false, probes, name);
      has_expected = has_expected || is_kept[p];
    }
  }
  std::vector<RowsPrimitive> kept;
  for (std::size_t p = 0; p < primitives.size(); ++p) {
    // One row alone is always like itself; it comes last.
    if (is_kept[p] && (primitives[p].rows > 1 || kept.empty())) kept.push_back(primitives[p]);
  }
  if (kept.empty()) fail(name, ": oneDNN offers no row count that gives a row the same bits wherever it stands");
  primitives = std::move(kept);
  std::sort(primitives.begin(), primitives.end(),
            [](const RowsPrimitive& a, const RowsPrimitive& b) { return a.rows > b.rows; });
  for (const RowsPrimitive& p : primitives) {
    implementation += (counts.empty() ? ", " : "/") + std::to_string(p.rows);
    counts.push_back(p.rows);
  }
  implementation += " rows";
  staged_rows = most_padded_rows(counts, kRowBlock);
}

// Whether the results are W x + b, of the first and the last row of a call. The other row counts have their bits.
bool DnnlProduct::Impl::tried_rows_are_right(TensorView<const float> W, TensorView<const float> bias_view,
                                             const char* name) const {
  const std::size_t rows = primitives.front().rows;
  std::vector<float> source(rows * in_size), destination(rows * out_size);
  std::vector<std::byte> scratch(scratch_bytes);
  RandomNumbers numbers;
  for (float& x : source) x = numbers.next();
  if (!execute(0, source.data(), destination.data(), scratch.data(), *make_slot())) {
    fail(name, ": oneDNN failed to run");
  }
  const auto row_is_right = [&](std::size_t row) {
    return is_product(W, bias_view, &source[row * in_size], &destination[row * out_size]);
  };
  return row_is_right(0) && row_is_right(rows - 1);
}

DnnlProduct::DnnlProduct(TensorView<const float> W, TensorView<const float> bias_view, const char* name)
    : impl_(std::make_unique<Impl>()) {
  impl_->out_size = static_cast<std::size_t>(W.size(0));
  impl_->in_size = static_cast<std::size_t>(W.size(1));
  impl_->has_bias = !bias_view.empty();
  const std::size_t out = impl_->out_size, in = impl_->in_size;
  try {
    [[maybe_unused]] const OneThreadScope one_thread;
    impl_->make_primitives(memory::desc({dim(in), dim(out)}, kF32, memory::format_tag::any), name);

    // Transposed by ourselves: from rows of W, oneDNN 3.7 packs the layouts of AVX-512 wrongly (its reorder jit:uni,
    // put right in 3.8.1).
    std::vector<float> dense(checked_multiply(out, in, name));
    for (std::size_t o = 0; o < out; ++o) {
      for (std::size_t i = 0; i < in; ++i) dense[i * out + o] = *W.at(o, i);
    }
    memory plain({{dim(in), dim(out)}, kF32, memory::format_tag::ab}, cpu_engine(), dense.data());
    impl_->weights = memory(impl_->primitives[0].descriptor.weights_desc(), cpu_engine());
    dnnl::stream stream = cpu_stream();
    dnnl::reorder(plain, impl_->weights).execute(stream, plain, impl_->weights);
    stream.wait();

    if (impl_->has_bias) {
      impl_->bias = memory({{1, dim(out)}, kF32, memory::format_tag::ab}, cpu_engine());
      auto* bias = static_cast<float*>(impl_->bias.get_data_handle());
      for (std::size_t o = 0; o < out; ++o) bias[o] = *bias_view.at(o);
    }
    impl_->keep_row_independent(name);
    impl_->is_right = impl_->tried_rows_are_right(W, bias_view, name);
  } catch (const dnnl::error& error) {
    fail(name, " (", out, ", ", in, "): oneDNN failed: ", error.what());
  }
}

DnnlProduct::~DnnlProduct() = default;

bool DnnlProduct::is_offered(std::size_t in, std::size_t out) try {
  [[maybe_unused]] const OneThreadScope one_thread;
  const memory::desc source({dim(kRowBlock), dim(in)}, kF32, memory::format_tag::ab);
  const memory::desc weights({dim(in), dim(out)}, kF32, memory::format_tag::any);
  const memory::desc destination({dim(kRowBlock), dim(out)}, kF32, memory::format_tag::ab);
  return !is_reference(matmul_descriptor(cpu_engine(), source, weights, nullptr, destination, user_scratchpad()));
} catch (const dnnl::error&) {
  return false;
}

bool DnnlProduct::is_right() const noexcept { return impl_->is_right; }
std::string DnnlProduct::implementation() const { return impl_->implementation; }
std::size_t DnnlProduct::scratch_bytes(std::size_t /*most_rows*/) const noexcept {
  return impl_->staging_bytes() + impl_->scratch_bytes;
}

void DnnlProduct::prepare_for(int num_calls) const {
  // Those that are free now, filled up to the number asked for; calls of other plans in flight come back on top of it.
  const int wanted = std::min(num_calls, kMaxPrepared);
  try {
    while (impl_->num_free.load(std::memory_order_relaxed) < wanted) impl_->add_slot(false);
  } catch (const dnnl::error& error) {
    fail("a map of ", impl_->in_size, " to ", impl_->out_size, " elements: oneDNN failed: ", error.what());
  }
}

bool DnnlProduct::Impl::execute(std::size_t index, const float* source, float* destination, std::byte* scratch,
                                CallSlot& slot) const {
  const RowsPrimitive& p = primitives[index];
  // The C entries: dnnl::memory::set_data_handle wants mutable data, and dnnl::primitive::execute builds a map.
  const dnnl_memory_t source_memory = slot.sources[index].get(), destination_memory = slot.destinations[index].get();
  if (dnnl_memory_set_data_handle(source_memory, const_cast<float*>(source)) != dnnl_success ||
      dnnl_memory_set_data_handle(destination_memory, destination) != dnnl_success ||
      dnnl_memory_set_data_handle(slot.scratchpad.get(), scratch) != dnnl_success) {
    return false;
  }
  std::array<dnnl_exec_arg_t, 5> arguments{{{DNNL_ARG_SRC, source_memory},
                                            {DNNL_ARG_WEIGHTS, weights.get()},
                                            {DNNL_ARG_DST, destination_memory},
                                            {DNNL_ARG_SCRATCHPAD, slot.scratchpad.get()},
                                            {DNNL_ARG_BIAS, has_bias ? bias.get() : nullptr}}};
  return dnnl_primitive_execute(p.primitive.get(), cpu_stream().get(), has_bias ? 5 : 4, arguments.data()) ==
         dnnl_success;
}

bool DnnlProduct::Impl::multiply_dense(const float* source, float* destination, std::size_t num_rows,
                                       std::byte* scratch, CallSlot& slot) const {
  for (std::size_t done = 0; done < num_rows;) {
    const std::size_t p = next_count(counts, kRowBlock, num_rows - done);
    if (!execute(p, source + done * in_size, destination + done * out_size, scratch, slot)) return false;
    done += primitives[p].rows;
  }
  return true;
}

namespace {

// How many of the rows lie one after another, `size` elements each.
template <class T>
std::size_t count_dense(T* const* rows, std::size_t num_rows, std::size_t size) {
  std::size_t dense = 1;
  while (dense < num_rows && rows[dense] == rows[0] + dense * size) ++dense;
  return std::min(dense, num_rows);
}

}  // namespace

bool DnnlProduct::multiply(const kernels::LinearRowsKernels& /*kernels*/, const Columns& /*columns*/,
                           const float* const* rows, float* const* results, std::size_t num_rows,
                           const kernels::LinearAhead& /*ahead*/, std::byte* scratch) const {
  const std::size_t in = impl_->in_size, out = impl_->out_size;
  auto* gathered = reinterpret_cast<float*>(scratch);
  auto* staged = reinterpret_cast<float*>(scratch + impl_->sources_bytes());
  std::byte* own_scratch = scratch + impl_->staging_bytes();
  [[maybe_unused]] const OneThreadScope one_thread(impl_->asks_for_threads);
  CallSlot* slot = impl_->take_slot();
  bool ok = slot != nullptr;
  for (std::size_t done = 0; ok && done < num_rows;) {
    const float* const* x = rows + done;
    float* const* y = results + done;
    // Whole blocks that lie densely at both ends go as they are; else one block, which may be staged. Rows used where
    // they lie must not need padding: what follows them may be unmapped, or somebody's result.
    const std::size_t dense_x = count_dense(x, num_rows - done, in), dense_y = count_dense(y, num_rows - done, out);
    const std::size_t whole = std::min(dense_x, dense_y) / kRowBlock * kRowBlock;
    const bool direct = whole > kRowBlock && padded_rows(impl_->counts, kRowBlock, whole) == whole;
    const std::size_t count = direct ? whole : std::min(kRowBlock, num_rows - done);
    const std::size_t padded = padded_rows(impl_->counts, kRowBlock, count);
    const float* source = x[0];
    if (padded != count || dense_x < count) {
      for (std::size_t r = 0; r < count; ++r) std::copy_n(x[r], in, gathered + r * in);
      std::fill(gathered + count * in, gathered + padded * in, 0.0f);
      source = gathered;
    }
    const bool in_place = padded == count && dense_y >= count;
    ok = impl_->multiply_dense(source, in_place ? y[0] : staged, count, own_scratch, *slot);
    for (std::size_t r = 0; ok && !in_place && r < count; ++r) std::copy_n(staged + r * out, out, y[r]);
    done += count;
  }
  if (slot != nullptr) impl_->put_back(*slot);
  return ok;
}

}  // namespace attend::matmul
