// The only file that knows libpng is png_file.cc.
#ifndef ATTEND_TOOLS_HEATMAP_PNG_FILE_H_
#define ATTEND_TOOLS_HEATMAP_PNG_FILE_H_

#include <string>

#include "tools/heatmap/raster.h"

namespace attend::tools {

// The bytes of a PNG file: 8-bit RGB, 96 dpi. Throws Error if libpng fails, with its reason.
std::string to_png(const Raster& raster);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_PNG_FILE_H_
