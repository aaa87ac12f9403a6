#include "tools/attend/signals.h"

#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): POSIX's part of it

namespace attend::tools {
namespace {

constexpr int kEnding[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU};

// Written before the first handler is there.
void (*clean_up_first)();
pthread_t main_thread;

sigset_t ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kEnding) sigaddset(&signals, signal);
  return signals;
}

// The system gives a signal to any thread that lets it pass. In the main one it is never in the midst of a change.
void end_by(int signal) {
  if (pthread_equal(pthread_self(), main_thread) == 0) {
    pthread_kill(main_thread, signal);
    return;
  }
  clean_up_first();
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // comes when this handler is left, and tells the parent what ended us
}

}  // namespace

void clean_up_on_signals(void (*clean_up)()) {
  clean_up_first = clean_up;
  main_thread = pthread_self();
  struct sigaction action {};
  action.sa_handler = end_by;
  action.sa_mask = ending_signals();
  action.sa_flags = SA_RESTART;  // for the threads that only pass them on
  for (const int signal : kEnding) {
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) sigaction(signal, &action, nullptr);
  }
}

HeldSignals::HeldSignals() {
  const sigset_t signals = ending_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &old_);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }

}  // namespace attend::tools
