// The contract (engine/README.md), line 10: the library prints nothing, and leaves alone what belongs to the process:
// Highway's chosen target, OpenMP's threads, oneDNN's instruction set, the locale, how floats are rounded.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <cstdio>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include "attend/attend.h"
#include "tests/support/compare.h"
#include "tests/support/executors.h"
#include "tests/support/layer_cases.h"
#include "tests/support/prepared.h"
#include "tests/support/run.h"
#include "tests/support/temp_dir.h"

namespace attend::tests {
namespace {

// A function of a library that oneDNN may have brought along, or null.
template <class Function>
Function* loaded(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

int omp_threads() {
  auto* get = loaded<int()>("omp_get_max_threads");
  return get == nullptr ? 0 : get();
}
void set_omp_threads(int threads) {
  if (auto* set = loaded<void(int)>("omp_set_num_threads")) set(threads);
}

std::string process_wide_settings() {
  auto* onednn_isa = loaded<int()>("dnnl_get_effective_cpu_isa");
  volatile float smallest = std::numeric_limits<float>::min();
  std::ostringstream text;
  // In this order: to ask Highway what it supports is to let it choose, in 1.0.3.
  text << "Highway's choice " << hwy::GetChosenTarget().GetIndex() << " of " << hwy::SupportedTargets();
  text << ", OpenMP's threads " << omp_threads() << ", oneDNN's instruction set "
       << (onednn_isa == nullptr ? 0 : onednn_isa()) << ", locale " << std::setlocale(LC_ALL, nullptr) << ", rounding "
       << std::fegetround() << ", subnormal " << smallest / 2;
  return text.str();
}

// What goes to the standard output and to that for errors while it lives goes to a file.
class CapturedOutput {
 public:
  CapturedOutput() {
    flush();
    const int file = open(dir_.path("printed").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
    REQUIRE(file >= 0);
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      kept_[fd - STDOUT_FILENO] = dup(fd);
      dup2(file, fd);
    }
    close(file);
  }
  ~CapturedOutput() { release(); }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  // Ends it.
  std::string text() {
    release();
    return dir_.read("printed");
  }

 private:
  static void flush() {
    std::cout.flush();
    std::fflush(nullptr);
  }
  void release() {
    flush();
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
      int& kept = kept_[fd - STDOUT_FILENO];
      if (kept < 0) continue;
      dup2(kept, fd);
      close(kept);
      kept = -1;
    }
  }

  TempDir dir_;
  int kept_[2] = {-1, -1};
};

// What a service does, and what it does wrong. Returns how much of the latter was not refused.
int plan_and_run(Layer layer) {
  LayerCase c({.layer = layer, .num_queries = 20, .num_keys = 130, .seed = 30});
  EagerPool pool(2);
  int accepted = 0;
  for_each_plan(c, [&](const Plan& serial, bool with_weights) {
    PlanOptions options = options_of(serial, with_weights);
    options.threads = 2;
    const Plan plan = c.attention.plan(c.shape, options);
    plan.explain();
    run_plan(serial, c.inputs(), with_weights);
    run_plan(plan, c.inputs(), with_weights, &pool);
    PreparedKeys prepared(plan);
    prepare(plan, key_inputs(c.inputs()), prepared, &pool);
    run_plan(plan, on_prepared(c.inputs(), prepared), with_weights);
    LayerCase wrong = c;
    wrong.lens.data = {130, 131};
    accepted += error_message([&] { run_plan(plan, wrong.inputs(), with_weights); }).empty() ? 1 : 0;
    accepted += error_message([&] { prepare(plan, key_inputs(wrong.inputs()), prepared); }).empty() ? 1 : 0;
    options.tile_keys = 1;
    accepted += error_message([&] { c.attention.plan(c.shape, options); }).empty() ? 1 : 0;
  });
  return accepted;
}

}  // namespace

TEST_CASE("contract 10: nothing is printed, and what belongs to the process stays as it was") {
  const int threads = omp_threads();
  set_omp_threads(5);  // what nobody would set
  hwy::SupportedTargets();
  const std::string before = process_wide_settings();
  for (const Layer layer : kAllLayers) {
    CAPTURE(layer_name(layer));
    CapturedOutput output;
    const int accepted = plan_and_run(layer);
    for_each_target([&](const Target& target) {
      const LayerCase c({.layer = layer});
      Planner::tune(c.attention, c.shape, {.threads = 2, .target = target}, {.seconds = 0});
    });
    const std::string printed = output.text();
    CHECK(printed == "");
    CHECK(accepted == 0);
    CHECK(process_wide_settings() == before);
  }
  set_omp_threads(threads);
}

TEST_CASE("contract 10: what is printed would be seen") {
  CapturedOutput output;
  std::printf("one ");
  std::fflush(stdout);
  std::cerr << "two ";
  std::cout << "three";
  CHECK(output.text() == "one two three");
}

}  // namespace attend::tests
