// Line plots: as plain text for a terminal, and as self-contained SVG.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace truemax {

struct PlotPoint {
  double x = 0, y = 0;
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;  // joined in this order
};

struct Plot {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  double y_most = std::numeric_limits<double>::max();  // higher points are left out
  std::vector<PlotLine> lines;
};

// The number of points that cannot be drawn: not finite, not above 0 on a logarithmic axis, or above y_most.
// Every plot states it.
std::size_t left_out(const Plot& plot);

// At most `columns` wide; each line has its own letter.
std::string plot_text(const Plot& plot, std::size_t columns = 80, std::size_t rows = 16);

// One panel per plot; follows the reader's light or dark mode.
std::string plot_svg(std::span<const Plot> panels);

// An axis: the place of a value between its ends, and its ticks.
class PlotAxis {
 public:
  struct Tick {
    double value = 0;
    std::string text;
  };
  // `values` are finite, and above 0 if the axis is logarithmic. Without values the axis runs from 1 to 10. A
  // single value, or values too close to tell apart, are put in the middle.
  PlotAxis(std::span<const double> values, bool logarithmic);

  double place(double value) const;  // from 0 to 1
  std::vector<Tick> ticks(std::size_t about) const;

 private:
  std::vector<Tick> decades(std::size_t about) const;
  std::vector<Tick> round_steps(std::size_t about) const;
  bool log_;
  double low_ = 1, high_ = 10;  // log10 of the ends if log_
};

}  // namespace truemax
