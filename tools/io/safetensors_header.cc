#include "tools/io/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/io/message.h"
#include "tools/io/stored_tensor.h"

namespace attend::io {
namespace {

constexpr std::string_view kMetadata = "__metadata__";

// Receives the parser's events and accepts those that the format allows, in a state per nesting level. Events instead
// of nlohmann's tree: the tree keeps the last of duplicate keys silently, and its depth is what the file says.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(const std::string& path) : path_(path) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::kStart:
        return go(State::kFile);
      case State::kValue:
        return go(is_metadata_ ? State::kMetadataKeys : State::kTensor);
      default:
        unexpected("an object");
    }
  }

  bool end_object() override {
    if (state_ == State::kFile) return go(State::kEnd);
    if (state_ == State::kTensor) finish_tensor();
    return go(State::kFile);
  }

  bool key(string_t& name) override {
    if (state_ == State::kFile) {
      if (!names_.insert(name).second) fail(printable_path(path_), "header has the name " + in_quotes(name) + " twice");
      name_ = name;
      is_metadata_ = name == kMetadata;
      entry_ = {};
      fields_.clear();
      return go(State::kValue);
    }
    if (!fields_.insert(name).second) fail(label(), "header has the key " + in_quotes(name) + " twice");
    if (state_ == State::kMetadataKeys) return true;
    if (name == "dtype") return go(State::kDtype);
    if (name == "shape") return go(State::kShape);
    if (name == "data_offsets") return go(State::kOffsets);
    fail(label(), "header has the key " + in_quotes(name) + ", expected 'dtype', 'shape' and 'data_offsets' only");
  }

  bool start_array(std::size_t) override {
    if (state_ == State::kShape) return go(State::kShapeItems);
    if (state_ == State::kOffsets) return go(State::kOffsetItems);
    unexpected("an array");
  }

  bool end_array() override {
    if (state_ == State::kOffsetItems && num_offsets_ != 2) {
      fail(label(), std::to_string(num_offsets_) + " data_offsets, expected 2");
    }
    num_offsets_ = 0;
    return go(State::kTensor);
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadataKeys) return true;
    if (state_ != State::kDtype) unexpected("a string");
    entry_.dtype = value;
    return go(State::kTensor);
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::kShapeItems) return add_size(value);
    if (state_ == State::kOffsetItems) return add_offset(value);
    unexpected("a number");
  }

  // Called for numbers with a minus sign only, and for those with a fraction, an exponent or more than 64 bits.
  bool number_integer(number_integer_t value) override { unexpected("the negative number " + std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected("the number " + printable(text, 40)); }
  bool null() override {
    // As no metadata at all, and so to the format's own reader (an Option in safetensors/src/tensor.rs).
    if (state_ == State::kValue && is_metadata_) return go(State::kFile);
    unexpected("null");
  }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(printable_path(path_), "header is not valid JSON near byte " + std::to_string(position));
  }

 private:
  enum class State {
    kStart,
    kFile,          // among the names of the file
    kValue,         // after a name
    kMetadataKeys,  // among the keys of __metadata__
    kTensor,        // among the keys of a tensor
    kDtype,         // after one of these keys
    kShape,
    kOffsets,
    kShapeItems,
    kOffsetItems,
    kEnd,
  };

  bool go(State state) {
    state_ = state;
    return true;
  }

  std::string label() const { return tensor_label(path_, name_); }

  bool add_size(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(label(), "size " + std::to_string(value) + " in the shape, expected below 2^63");
    }
    if (entry_.shape.size() == kMaxStoredRank) {
      fail(label(), "shape of more than " + std::to_string(kMaxStoredRank) + " sizes, expected fewer");
    }
    entry_.shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool add_offset(std::uint64_t value) {
    if (num_offsets_ == 0) entry_.begin = value;
    if (num_offsets_ == 1) entry_.end = value;
    ++num_offsets_;
    return true;
  }

  void finish_tensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) fail(label(), "header has no key " + in_quotes(field));
    }
    header_.emplace(name_, std::move(entry_));
  }

  [[noreturn]] void unexpected(const std::string& found) const {
    switch (state_) {
      case State::kStart:
        fail(printable_path(path_), "header is " + found + ", expected an object");
      case State::kMetadataKeys:
        fail(label(), "header has " + found + ", expected strings only");
      case State::kDtype:
        fail(label(), "dtype is " + found + ", expected a string");
      case State::kShape:
        fail(label(), "shape is " + found + ", expected an array");
      case State::kOffsets:
        fail(label(), "data_offsets is " + found + ", expected an array");
      case State::kShapeItems:
        fail(label(), "shape holds " + found + ", expected integers from 0 to 2^63 - 1");
      case State::kOffsetItems:
        fail(label(), "data_offsets holds " + found + ", expected two integers of at least 0");
      default:
        fail(label(), "header has " + found + ", expected an object");
    }
  }

  const std::string& path_;
  State state_ = State::kStart;
  std::string name_;
  bool is_metadata_ = false;
  std::size_t num_offsets_ = 0;
  SafetensorsEntry entry_;
  std::set<std::string, std::less<>> fields_;  // keys seen in this object
  std::set<std::string, std::less<>> names_;   // names seen in the file
  SafetensorsHeader header_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& path) {
  // nlohmann takes a NUL for the end of its input and skips a byte order mark; the format knows neither.
  const std::size_t nul = json.find('\0');
  if (nul != std::string_view::npos) {
    fail(printable_path(path), "header has a NUL at byte " + std::to_string(nul) + ", expected JSON");
  }
  if (!json.starts_with('{')) fail(printable_path(path), "header does not begin with '{'");
  HeaderEvents events(path);
  nlohmann::json::sax_parse(json.begin(), json.end(), &events);
  return events.take();
}

}  // namespace attend::io
