#include "tools/attend/table.h"

#include <algorithm>
#include <utility>

namespace attend::tools {

void Table::add(std::vector<std::string> row) {
  widths_.resize(row.size());
  for (std::size_t column = 0; column < row.size(); ++column) {
    widths_[column] = std::max(widths_[column], row[column].size());
  }
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    text.append(look_.indent, ' ');
    for (std::size_t column = 0; column + 1 < row.size(); ++column) {
      const std::string padding(widths_[column] - row[column].size(), ' ');
      text += (look_.right_aligned && column > 0 ? padding + row[column] : row[column] + padding) + "  ";
    }
    text += row.back() + "\n";
  }
  return text;
}

}  // namespace attend::tools
