// What the writers of attend/io.h put into a file, for those who commit it later.
#ifndef ATTEND_TOOLS_IO_SAVE_H_
#define ATTEND_TOOLS_IO_SAVE_H_

#include "attend/tensor_view.h"
#include "tools/io/atomic_file.h"

namespace attend::io {

// As save_npy, without commit().
void write_npy(AtomicFile& file, TensorView<const float> view);

}  // namespace attend::io

#endif  // ATTEND_TOOLS_IO_SAVE_H_
