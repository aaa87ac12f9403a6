// Signals that end the command, which has files to remove first.
#ifndef ATTEND_TOOLS_ATTEND_SIGNALS_H_
#define ATTEND_TOOLS_ATTEND_SIGNALS_H_

#include <csignal>

namespace attend::tools {

// Has clean_up called before SIGHUP, SIGINT, SIGQUIT, SIGTERM or SIGXCPU ends the process, as it would have without. A
// signal that is ignored, as nohup has it, stays so. To be called by the main thread, in which a handler then calls
// clean_up: it may do only what is async-signal-safe.
void clean_up_on_signals(void (*clean_up)());

// While one lives, those signals wait: what clean_up looks at may change. In the main thread, and for moments only;
// where an old output has to be copied, since its directory refuses a second name, for as long as that takes.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t old_;
};

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_SIGNALS_H_
