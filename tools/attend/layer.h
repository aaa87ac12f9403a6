// From words to a layer, with what its reference needs.
#ifndef ATTEND_TOOLS_ATTEND_LAYER_H_
#define ATTEND_TOOLS_ATTEND_LAYER_H_

#include <memory>

#include "attend/io.h"
#include "attend/layers.h"
#include "attend/plan.h"
#include "attend/reference.h"
#include "tools/attend/options.h"

namespace attend::tools {

struct Layer {
  Attention attention;
  LayerKind kind;  // never kAuto
  std::shared_ptr<const Parameters> parameters;
  DotOptions dot;
  BilinearOptions bilinear;
  GaussianOptions gaussian;
  MultiHeadOptions multi_head;
};

// Loads the weights, or makes them up where none are given and sizes says what they are to fit; picks the layer if the
// words leave that open. Notices are added to notices.
Layer make_layer(const LayerWords& words, const Shape& sizes, io::Notices& notices);

// Result of the reference, in double.
reference::Result truth(const Layer& layer, const Inputs& inputs, const reference::Mask& mask);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_LAYER_H_
