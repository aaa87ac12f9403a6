#include "tools/io/npy_header.h"

#include <limits>

#include "tools/io/little_endian.h"
#include "tools/io/message.h"
#include "tools/io/stored_tensor.h"

namespace attend::io {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& label) : text_(text), label_(label) {}

  NpyHeader parse() {
    NpyHeader header;
    expect('{', "a dict");
    while (!accept('}')) {
      parse_item(header);
      if (accept(',')) continue;
      expect('}', "',' or '}' after a value");
      break;
    }
    skip_space();
    if (position_ != text_.size()) stop("nothing but spaces after the dict");
    require(seen_descr_, "descr");
    require(seen_fortran_order_, "fortran_order");
    require(seen_shape_, "shape");
    return header;
  }

 private:
  void parse_item(NpyHeader& header) {
    const std::string key = parse_string("a key");
    expect(':', "':' after a key");
    if (key == "descr") {
      see(seen_descr_, key);
      parse_descr(header);
    } else if (key == "fortran_order") {
      see(seen_fortran_order_, key);
      header.fortran_order = parse_bool();
    } else if (key == "shape") {
      see(seen_shape_, key);
      header.shape = parse_shape();
    } else {
      fail(label_,
           ".npy header has the key " + in_quotes(key) + ", expected 'descr', 'fortran_order' and 'shape' only");
    }
  }

  // A string, or for a structured type a list, which is only skipped: it is an element type that is not read.
  void parse_descr(NpyHeader& header) {
    skip_space();
    header.structured = peek() == '[' || peek() == '(';
    if (!header.structured) {
      header.descr = parse_string("a type string");
      return;
    }
    const std::size_t begin = position_;
    skip_brackets();
    header.descr = text_.substr(begin, position_ - begin);
  }

  // Counts brackets instead of recursing, so that depth costs nothing.
  void skip_brackets() {
    std::size_t depth = 0;
    do {
      const char c = peek();
      if (c == '\0') stop("the end of the type list");
      if (c == '\'' || c == '"') {
        skip_string();
        continue;
      }
      if (c == '[' || c == '(' || c == '{') ++depth;
      if (c == ']' || c == ')' || c == '}') --depth;
      ++position_;
    } while (depth > 0);
  }

  void skip_string() {
    const char quote = peek();
    ++position_;
    while (peek() != quote) {
      if (peek() == '\\') ++position_;
      if (peek() == '\0') stop("the end of a string");
      ++position_;
    }
    ++position_;
  }

  std::string parse_string(const char* expected) {
    skip_space();
    if (peek() != '\'' && peek() != '"') stop(expected);
    const std::size_t begin = position_ + 1;
    skip_string();
    std::string text(text_.substr(begin, position_ - 1 - begin));
    if (text.find('\\') != std::string::npos) stop("a string without escapes");
    return text;
  }

  bool parse_bool() {
    skip_space();
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    stop("True or False");
  }

  // "()", "(3,)", "(3, 4)" or "(3, 4,)". A number in brackets without a comma is not a tuple in Python.
  std::vector<std::int64_t> parse_shape() {
    std::vector<std::int64_t> shape;
    expect('(', "a tuple");
    bool comma = true;
    while (!accept(')')) {
      if (!comma) stop("',' or ')' after a size");
      if (shape.size() == kMaxStoredRank) stop("at most " + std::to_string(kMaxStoredRank) + " sizes");
      shape.push_back(parse_size());
      comma = accept(',');
    }
    if (shape.size() == 1 && !comma) stop("',' after the only size of a tuple");
    return shape;
  }

  std::int64_t parse_size() {
    skip_space();
    if (peek() == '-') stop("a size of at least 0");
    if (!is_digit(peek())) stop("a size");
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    std::int64_t size = 0;
    for (; is_digit(peek()); ++position_) {
      const int digit = peek() - '0';
      if (size > (kMax - digit) / 10) stop("a size below 2^63");
      size = size * 10 + digit;
    }
    if (peek() == 'L') ++position_;  // Python 2 wrote long integers as 3L; numpy reads them still
    return size;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  // The next character; NUL at the end and beyond. A NUL inside the header is nowhere valid, so the two need no telling
  // apart.
  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void skip_space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++position_;
  }

  bool accept(char c) {
    skip_space();
    if (peek() != c) return false;
    ++position_;
    return true;
  }

  bool accept_word(std::string_view word) {
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  void expect(char c, const char* expected) {
    if (!accept(c)) stop(expected);
  }

  void see(bool& seen, const std::string& key) {
    if (seen) fail(label_, ".npy header has the key " + in_quotes(key) + " twice");
    seen = true;
  }

  void require(bool seen, const std::string& key) {
    if (!seen) fail(label_, ".npy header has no key " + in_quotes(key));
  }

  [[noreturn]] void stop(const std::string& expected) {
    constexpr std::size_t kShownBytes = 20;
    const bool at_end = position_ >= text_.size();
    const std::string found = at_end ? "its end" : in_quotes(text_.substr(position_, kShownBytes));
    fail(label_, ".npy header has " + found + " at byte " + std::to_string(position_) + ", expected " + expected);
  }

  std::string_view text_;
  const std::string& label_;
  std::size_t position_ = 0;
  bool seen_descr_ = false;
  bool seen_fortran_order_ = false;
  bool seen_shape_ = false;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& label) { return Parser(text, label).parse(); }

std::string make_npy_header(std::span<const std::int64_t> sizes) {
  constexpr std::size_t kAlignment = 64;  // ARRAY_ALIGN in numpy/lib/format.py
  constexpr std::size_t kPreambleBytes = 10;
  std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) dict += (axis == 0 ? "" : ", ") + std::to_string(sizes[axis]);
  dict += sizes.size() == 1 ? ",), }" : "), }";
  const std::size_t unpadded = kPreambleBytes + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::string header(kNpyMagic);
  header += '\x01';
  header += '\0';
  append_le(header, static_cast<std::uint16_t>(dict.size()));
  return header + dict;
}

}  // namespace attend::io
