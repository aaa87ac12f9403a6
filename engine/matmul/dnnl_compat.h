// What differs between oneDNN 2.6 and 3.x, and the two traps that both share: threads of its own, and odd layouts that
// fall silently to a reference implementation.
#ifndef ATTEND_MATMUL_DNNL_COMPAT_H_
#define ATTEND_MATMUL_DNNL_COMPAT_H_

#include <string>

#include <dnnl.hpp>
#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP
#include <omp.h>
#endif

namespace attend::matmul {

// oneDNN takes a primitive's number of threads from OpenMP's per-thread setting: its newer kernels when a primitive
// descriptor is made, its jitted gemm (all there is for AVX2 and SSE4.1) each time that runs, and then splits sums by
// it, so that bits depend on it. This sets it to one for the calling thread and restores the caller's value; other
// threads never see it.
class OneThreadScope {
 public:
#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP
  explicit OneThreadScope(bool needed = true) : saved_(needed ? omp_get_max_threads() : 1) {
    if (saved_ != 1) omp_set_num_threads(1);
  }
  ~OneThreadScope() {
    if (saved_ != 1) omp_set_num_threads(saved_);
  }

 private:
  int saved_;
#else
  explicit OneThreadScope(bool /*needed*/ = true) {}
#endif
 public:
  OneThreadScope(const OneThreadScope&) = delete;
  OneThreadScope& operator=(const OneThreadScope&) = delete;
};

// dst (rows, out) = src (rows, in) weights (in, out) + bias (1, out); bias may be a zero descriptor.
inline dnnl::matmul::primitive_desc matmul_descriptor(const dnnl::engine& engine, const dnnl::memory::desc& src,
                                                      const dnnl::memory::desc& weights, const dnnl::memory::desc* bias,
                                                      const dnnl::memory::desc& dst,
                                                      const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  if (bias != nullptr) return dnnl::matmul::primitive_desc(engine, src, weights, *bias, dst, attributes);
  return dnnl::matmul::primitive_desc(engine, src, weights, dst, attributes);
#else
  if (bias != nullptr) {
    return dnnl::matmul::primitive_desc(dnnl::matmul::desc(src, weights, *bias, dst), attributes, engine);
  }
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(src, weights, dst), attributes, engine);
#endif
}

inline std::string dnnl_version_text() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." + std::to_string(version->patch);
}

}  // namespace attend::matmul

#endif  // ATTEND_MATMUL_DNNL_COMPAT_H_
