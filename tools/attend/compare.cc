// attend compare: how far two tensors are apart. For scripts that hold a result against another implementation's.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "attend/error.h"
#include "attend/io.h"
#include "tools/attend/argument.h"
#include "tools/attend/command.h"
#include "tools/attend/console.h"
#include "tools/attend/numbers.h"
#include "tools/attend/words.h"

namespace attend::tools {
namespace {

struct CompareWords {
  std::string actual, expected;
  std::optional<double> tolerance;  // not given: only report
};

// "[1, 0, 7]": the place of an element in row-major order.
std::string place_text(std::size_t element, const std::vector<std::int64_t>& sizes) {
  std::string text = "]";
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    const auto size = static_cast<std::size_t>(sizes[axis]);
    text = (axis > 0 ? ", " : "[") + std::to_string(element % size) + text;
    element /= size;
  }
  return text;
}

// |a - b|; 0 for two NaNs or equal infinities, infinite when only one is not finite.
double distance(float a, float b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double d = std::fabs(static_cast<double>(a) - static_cast<double>(b));
  return std::isnan(d) ? HUGE_VAL : d;
}

// With as many digits as tell it from its neighbours.
std::string exactly(double number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

void compare(const CompareWords& words) {
  io::Notices notices;
  const Tensor actual = read_argument("ACTUAL", [&] { return io::load_tensor(words.actual, &notices); }),
               expected = read_argument("EXPECTED", [&] { return io::load_tensor(words.expected, &notices); });
  print_notes(notices);
  if (actual.sizes != expected.sizes) {
    throw Error(words.actual + " is " + to_string(actual.sizes) + ", " + words.expected + " is " +
                to_string(expected.sizes) + ", expected equal sizes");
  }
  double largest = 0, magnitude = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < actual.data.size(); ++i) {
    const double d = distance(actual.data[i], expected.data[i]);
    if (d > largest) {
      largest = d;
      where = i;
    }
    if (std::isfinite(expected.data[i]))
      magnitude = std::fmax(magnitude, std::fabs(static_cast<double>(expected.data[i])));
  }
  std::printf("largest difference %s", scientific(largest).c_str());
  if (largest > 0) std::printf(" at %s", place_text(where, actual.sizes).c_str());
  std::printf(", of values up to %.3g, in %zu elements\n", magnitude, actual.data.size());
  if (words.tolerance && !(largest <= *words.tolerance)) {
    throw Error("largest difference is " + exactly(largest) + ", expected at most " + exactly(*words.tolerance));
  }
}

}  // namespace

Command add_compare(CLI::App& app) {
  auto words = std::make_shared<CompareWords>();
  CLI::App* sub =
      app.add_subcommand("compare", "Prints the largest difference of two equal-sized tensors, as float32.");
  sub->add_option("ACTUAL", words->actual, "A tensor: file.npy, file.npz:name or file.safetensors:name.")->required();
  sub->add_option("EXPECTED", words->expected, "The tensor it should equal.")->required();
  sub->add_option_function<std::string>(
         "--tolerance",
         [words](const std::string& text) {
           words->tolerance = parse_number("--tolerance", text, 0, std::numeric_limits<double>::infinity(),
                                           "a finite number from 0 on");
         },
         "Exit 1 when the largest difference is beyond this. Default: it is only printed.")
      ->option_text("X");
  sub->footer("Example:\n  attend compare out.npy pytorch.npz:output --tolerance 1e-5");
  sub->callback([sub] { check_not_empty(*sub, {"ACTUAL", "EXPECTED"}); });
  return {sub, [words] { compare(*words); }};
}

}  // namespace attend::tools
