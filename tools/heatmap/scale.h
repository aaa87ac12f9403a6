// The colour scale: where it ends and which numbers stand under it.
#ifndef ATTEND_TOOLS_HEATMAP_SCALE_H_
#define ATTEND_TOOLS_HEATMAP_SCALE_H_

#include <string>
#include <vector>

namespace attend::tools {

struct Tick {
  double position = 0;  // from 0 to 1 along the bar
  std::string label;
};

struct Scale {
  double end = 1;           // it starts at 0
  std::vector<Tick> ticks;  // the first at 0, the last at end
};

// The scale for weights up to largest: rounded up to a number with a short name, at most 1. A largest weight of 0 or
// less gets the scale from 0 to 1.
Scale scale_for(double largest);

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_HEATMAP_SCALE_H_
