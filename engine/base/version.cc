#include "attend/version.h"

namespace attend {

const char* version() noexcept { return ATTEND_VERSION_STRING; }

}  // namespace attend
