#include "tools/heatmap/png_file.h"

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <utility>

#include "attend/error.h"

namespace attend::tools {
namespace {

constexpr png_uint_32 kPixelsPerMetre = 3780;  // 96 dpi

// What the callbacks share. libpng reports errors by longjmp, which skips destructors: so everything with a destructor
// lives in to_png(), above the setjmp, and what is between setjmp and longjmp is C.
struct Sink {
  std::string bytes;
  std::array<char, 128> reason{};
};

[[noreturn]] void on_error(png_structp png, png_const_charp reason) {
  auto* const sink = static_cast<Sink*>(png_get_error_ptr(png));
  std::snprintf(sink->reason.data(), sink->reason.size(), "%s", reason);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}  // a library does not print

void on_bytes(png_structp png, png_bytep bytes, size_t num_bytes) {
  bool appended = false;
  try {
    static_cast<Sink*>(png_get_io_ptr(png))->bytes.append(reinterpret_cast<const char*>(bytes), num_bytes);
    appended = true;
  } catch (const std::exception&) {
    // No exception may pass through libpng, and no longjmp may leave this block: the exception would leak.
  }
  if (!appended) png_error(png, "out of memory");
}

void on_flush(png_structp) {}

// Whether all was written. No object with a destructor here; nothing changed after setjmp is read after a longjmp.
bool write_picture(png_structp png, png_infop info, const Raster& raster, Sink& sink) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, &sink, on_bytes, on_flush);
  png_set_IHDR(png, info, static_cast<png_uint_32>(raster.width()), static_cast<png_uint_32>(raster.height()), 8,
               PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_pHYs(png, info, kPixelsPerMetre, kPixelsPerMetre, PNG_RESOLUTION_METER);
  png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
  // Flat cells repeat from row to row; filters made for photographs hide that from the compressor.
  png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
  png_write_info(png, info);
  for (std::int64_t y = 0; y < raster.height(); ++y) png_write_row(png, raster.row(y));
  png_write_end(png, info);
  return true;
}

}  // namespace

std::string to_png(const Raster& raster) {
  Sink sink;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &sink, on_error, on_warning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  const bool written = info != nullptr && write_picture(png, info, raster, sink);
  png_destroy_write_struct(&png, &info);
  if (written) return std::move(sink.bytes);
  const std::string reason = sink.reason[0] != '\0' ? sink.reason.data() : "cannot be set up";
  throw Error("heatmap: libpng: " + reason);
}

}  // namespace attend::tools
