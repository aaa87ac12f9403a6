// Arrays that end, or begin, at an unmapped page: reading or writing one element too far crashes the test, which is the
// point. In ordinary builds too: sanitizers make Highway avoid the masked instructions that are to be tested.
#ifndef ATTEND_TESTS_GUARD_PAGE_H_
#define ATTEND_TESTS_GUARD_PAGE_H_

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

#include <sys/mman.h>
#include <unistd.h>

namespace attend::tests {

enum class Guard {
  kEnd,    // the last element ends at the unmapped page; alignment is what falls out
  kBegin,  // the first element begins after it, at a page's start
};

// n elements, all bytes zero at first. n may be 0: data() is then one past (kEnd) the last mapped byte.
template <class T>
class GuardedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit GuardedArray(std::size_t n, Guard guard = Guard::kEnd) : size_(n) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inner = (n * sizeof(T) + page - 1) / page * page;
    mapped_bytes_ = inner + 2 * page;
    void* mapped = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    mapped_ = static_cast<unsigned char*>(mapped);
    if (inner != 0 && mprotect(mapped_ + page, inner, PROT_READ | PROT_WRITE) != 0) {
      munmap(mapped_, mapped_bytes_);
      throw std::bad_alloc();
    }
    unsigned char* first = mapped_ + page + (guard == Guard::kEnd ? inner - n * sizeof(T) : 0);
    data_ = reinterpret_cast<T*>(first);
  }
  ~GuardedArray() { munmap(mapped_, mapped_bytes_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }
  T* begin() noexcept { return data_; }
  T* end() noexcept { return data_ + size_; }

 private:
  unsigned char* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace attend::tests

#endif  // ATTEND_TESTS_GUARD_PAGE_H_
