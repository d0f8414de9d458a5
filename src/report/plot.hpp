// Line plots: in plain text for a terminal, and as SVG that stands on its own.
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

// Points that cannot be drawn: not finite, not above 0 on a logarithmic axis, or above y_most. Every plot
// says how many there were.
std::size_t left_out(const Plot& plot);

// At most `columns` wide, every line marked by a letter of its own.
std::string plot_text(const Plot& plot, std::size_t columns = 80, std::size_t rows = 16);

// One panel a plot, light or dark as the reader has it.
std::string plot_svg(std::span<const Plot> panels);

// An axis: where a value stands between its ends, and the values that are written beside it.
class PlotAxis {
 public:
  struct Tick {
    double value = 0;
    std::string text;
  };
  // `values` are finite, and above 0 where the axis is logarithmic; none at all: from 1 to 10. One value, or
  // values too near to each other to be told apart, stand in the middle.
  PlotAxis(std::span<const double> values, bool logarithmic);

  double place(double value) const;  // from 0 to 1
  std::vector<Tick> ticks(std::size_t about) const;

 private:
  std::vector<Tick> decades(std::size_t about) const;
  std::vector<Tick> round_steps(std::size_t about) const;
  bool log_;
  double low_ = 1, high_ = 10;  // logarithms (to base 10) where log_
};

}  // namespace truemax
