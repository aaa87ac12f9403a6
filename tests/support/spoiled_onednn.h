// While it lives, the first number of what oneDNN packs on this thread is wrong. spoiled_onednn.cc stands before
// oneDNN's own entry; only in builds with oneDNN.
#ifndef ATTEND_TESTS_SUPPORT_SPOILED_ONEDNN_H_
#define ATTEND_TESTS_SUPPORT_SPOILED_ONEDNN_H_

namespace attend::tests {

class SpoiledOneDnn {
 public:
  SpoiledOneDnn() noexcept;
  ~SpoiledOneDnn();
  SpoiledOneDnn(const SpoiledOneDnn&) = delete;
  SpoiledOneDnn& operator=(const SpoiledOneDnn&) = delete;
};

}  // namespace attend::tests

#endif  // ATTEND_TESTS_SUPPORT_SPOILED_ONEDNN_H_
