// Text in columns.
#ifndef ATTEND_TOOLS_ATTEND_TABLE_H_
#define ATTEND_TOOLS_ATTEND_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace attend::tools {

// Columns two spaces apart, each as wide as its longest cell. All rows have the same number of cells.
class Table {
 public:
  struct Look {
    std::size_t indent;
    bool right_aligned;  // all columns but the first and the last
  };
  explicit Table(Look look) : look_(look) {}

  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  Look look_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

}  // namespace attend::tools

#endif  // ATTEND_TOOLS_ATTEND_TABLE_H_
