// Copies that put a head's rows where the tile kernels want them. Guard-page safety of the fused paths rests here, and
// on the tile product for values that are used where they lie: no other kernel of theirs reads strided user rows.
//
// A panel is panel_width columns wide (a whole number of vectors, KernelSet::pack.panel_width) and as long as the inner
// dimension: element (k, n) of panel p stands at p * panel_stride + k * panel_width + (n - p * panel_width); of values,
// k * PackValuesArgs::row_stride.
#ifndef ATTEND_KERNELS_PACK_H_
#define ATTEND_KERNELS_PACK_H_

#include <cstddef>
#include <cstdint>

namespace attend::kernels {

struct PackKeysArgs {
  const float* keys;           // row j at keys + j * keys_stride, size elements
  std::ptrdiff_t keys_stride;  // elements, any
  std::size_t num_keys;
  std::size_t size;          // D or U
  const float* center;       // size elements subtracted from every key, or nullptr; needs pad: it moves whole vectors
  bool half_norms;           // append a row k = size holding -|key - center|^2 / 2
  float* panels;             // aligned; key j becomes column first + j
  std::size_t panel_stride;  // (size + half_norms) * panel_width
  std::size_t first = 0;     // a multiple of panel_width if there is a center or half_norms
  bool pad = true;  // columns beyond the last key, up to the end of its panel, are set to 0; false: they are left alone
};

struct PackValuesArgs {
  const float* values;           // row j at values + j * values_stride, size elements
  std::ptrdiff_t values_stride;  // elements, any
  std::size_t num_values;
  std::size_t size;          // Dv
  float* panels;             // aligned; ceil(size / panel_width) panels; columns beyond size are set to 0
  std::size_t panel_stride;  // elements, at least num_values * row_stride
  std::size_t row_stride;    // elements from a panel's row to the next: panel_width, or a line of memory more
};

struct PackQueriesArgs {
  const float* queries;           // row m at queries + m * queries_stride, size elements
  std::ptrdiff_t queries_stride;  // elements, any
  std::size_t num_queries;
  std::size_t size;
  const float* center;           // subtracted before scaling, or nullptr
  float scale;                   // packed = scale * (query - center)
  bool append_scale;             // append an element of value scale: the partner of half_norms
  float* packed;                 // row m at packed + m * packed_stride
  std::ptrdiff_t packed_stride;  // elements
};

struct PackKernels {
  std::size_t panel_width;  // elements
  void (*keys)(const PackKeysArgs&);
  // Returns whether every packed element is finite: 0 * value is then 0 and rows of one tile may differ in length.
  bool (*values)(const PackValuesArgs&);
  void (*queries)(const PackQueriesArgs&);
};

PackKernels pack_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_PACK_H_
