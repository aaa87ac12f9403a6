// Softmax of whole rows that lie in memory: the operation masked_softmax, and the materialised path.
#ifndef ATTEND_KERNELS_MASKED_SOFTMAX_H_
#define ATTEND_KERNELS_MASKED_SOFTMAX_H_

#include <cstddef>
#include <cstdint>

namespace attend::kernels {

// What is prefetched before its row's turn; touches no result.
enum class SoftmaxPrefetch {
  kAll,         // the next row's scores and their place in the output
  kBreaks,      // its scores, where they do not go on from those before; the rest is left to hardware prefetchers
  kLinesIntoL2  // scores and output, always so many lines ahead of those at work, over several rows if these are short
};

struct MaskedSoftmaxArgs {
  const float* input;            // row r at input + r * input_stride
  std::ptrdiff_t input_stride;   // elements
  float* output;                 // may be input, with the same stride; else no overlap
  std::ptrdiff_t output_stride;  // elements
  std::size_t num_rows;
  std::size_t num_columns;           // written in full: 0 at and beyond a row's valid length
  const std::int32_t* valid_lens;    // row r: valid_lens[r * valid_lens_stride]; nullptr: num_columns
  std::ptrdiff_t valid_lens_stride;  // 0: all rows share one length
  SoftmaxPrefetch prefetch = SoftmaxPrefetch::kAll;
  // Whether the passes over neighbouring rows take turns, or go in one loop where these are of one length. Same bits.
  bool together = false;
};

struct MaskedSoftmaxKernels {
  // Reads only the valid part of each row; writes no element beyond num_columns.
  void (*rows)(const MaskedSoftmaxArgs&);
  bool whole_lines;  // a vector may hold a line of memory, 64 bytes
};

namespace reference {
// The same in double, one row: output[j] = exp(input[j] - max) / sum, 0 for j >= valid_len. All -inf: all 0.
void masked_softmax_row(const float* input, std::size_t valid_len, std::size_t num_columns, double* output);
}  // namespace reference

MaskedSoftmaxKernels masked_softmax_kernels(std::int64_t target);

}  // namespace attend::kernels

#endif  // ATTEND_KERNELS_MASKED_SOFTMAX_H_
