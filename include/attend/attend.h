// Everything of the core: `#include <attend/attend.h>`. Files are in <attend/io.h>.
#ifndef ATTEND_ATTEND_H_
#define ATTEND_ATTEND_H_

#include "attend/error.h"
#include "attend/executor.h"
#include "attend/layers.h"
#include "attend/masked_softmax.h"
#include "attend/plan.h"
#include "attend/planner.h"
#include "attend/reference.h"
#include "attend/target.h"
#include "attend/tensor.h"
#include "attend/tensor_view.h"
#include "attend/version.h"

#endif  // ATTEND_ATTEND_H_
