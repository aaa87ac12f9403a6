// Per target: how wide a panel is (pack.h). Shared by everything that writes or reads panels.
#if defined(ATTEND_KERNELS_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEND_KERNELS_PANEL_INL_H_
#undef ATTEND_KERNELS_PANEL_INL_H_
#else
#define ATTEND_KERNELS_PANEL_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace attend {
namespace kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The tile product keeps kRows x kVectorsPerPanel accumulators in registers, beside one panel row and one broadcast.
// With 32 registers 6 x 4 + 4 + 1 = 29 fit, with 16 only 6 x 2 + 2 + 1 = 15: hence 4 and 2. AVX-512, Arm 64-bit and
// RISC-V have 32.
static constexpr bool kHas32Registers =
    (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64 || HWY_TARGET == HWY_RVV;
static constexpr size_t kVectorsPerPanel = kHas32Registers ? 4 : 2;

template <class D>
HWY_INLINE size_t PanelWidth(D d) {
  return kVectorsPerPanel * hn::Lanes(d);
}

}  // namespace HWY_NAMESPACE
}  // namespace kernels
}  // namespace attend
HWY_AFTER_NAMESPACE();

#endif  // ATTEND_KERNELS_PANEL_INL_H_
