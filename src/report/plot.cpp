#include "report/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"
#include "report/drawn.hpp"
#include "report/table.hpp"

namespace truemax {
namespace {

std::string tick_text(double value, double step) {
  if (value == 0) return "0";
  const double digits = std::floor(std::log10(std::abs(value))) - std::floor(std::log10(step)) + 1;
  return fmt::format("{:.{}g}", value, static_cast<int>(std::clamp(digits, 1.0, 15.0)));
}

// A grid of characters.
class Canvas {
 public:
  Canvas(std::size_t columns, std::size_t rows)
      : columns_(columns), lines_(rows, std::string(columns, ' ')) {}

  std::size_t column(double share) const { return cell(share, columns_); }
  std::size_t row(double share) const { return lines_.size() - 1 - cell(share, lines_.size()); }
  void mark(double x, double y, char c) { lines_[row(y)][column(x)] = c; }
  // Draws a straight line.
  void join(PlotPoint a, PlotPoint b, char c) {
    const auto gap = [](std::size_t s, std::size_t t) { return s > t ? s - t : t - s; };
    const std::size_t pieces = std::max(gap(column(a.x), column(b.x)), gap(row(a.y), row(b.y)));
    for (std::size_t i = 0; i <= pieces; ++i) {
      const double t = pieces == 0 ? 0 : static_cast<double>(i) / static_cast<double>(pieces);
      mark(a.x + t * (b.x - a.x), a.y + t * (b.y - a.y), c);
    }
  }
  const std::string& line(std::size_t row) const { return lines_[row]; }

 private:
  static std::size_t cell(double share, std::size_t cells) {
    const double at = std::floor(share * static_cast<double>(cells - 1) + 0.5);
    return static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(cells - 1)));
  }
  std::size_t columns_;
  std::vector<std::string> lines_;
};

char letter_of(std::size_t line) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  return kLetters[line % kLetters.size()];
}

// Cuts to this many screen columns, never inside a UTF-8 character.
std::string shortened(const std::string& text, std::size_t columns) {
  if (screen_width(text) <= columns) return text;
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t next = at + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80) ++next;
    if (++used + 3 > columns) break;
    out += text.substr(at, next - at);
    at = next;
  }
  return out + "...";
}

std::string legend_text(const Plot& plot, std::size_t columns) {
  std::string text;
  std::size_t used = 0;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const std::string entry =
        fmt::format("{} {}", letter_of(i), shortened(printable(plot.lines[i].name), columns - 4));
    const std::size_t width = screen_width(entry);
    if (used > 0 && used + 3 + width > columns) text += "\n", used = 0;
    text += (used == 0 ? "  " : "   ") + entry;
    used += (used == 0 ? 2 : 3) + width;
  }
  return text + "\n";
}

// Tick labels centred under their places; labels that would touch the one before are left out.
std::string labels_under(const PlotAxis& axis, const Canvas& canvas, std::size_t margin,
                         std::size_t columns) {
  std::string line(columns, ' ');
  std::size_t free_from = 0;
  for (const PlotAxis::Tick& tick : axis.ticks(6)) {
    const std::size_t middle = margin + canvas.column(axis.place(tick.value)), half = tick.text.size() / 2;
    const std::size_t start = std::min(middle - std::min(middle, half), columns - tick.text.size());
    if (start < free_from) continue;
    line.replace(start, tick.text.size(), tick.text);
    free_from = start + tick.text.size() + 1;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

PlotAxis::PlotAxis(std::span<const double> values, bool logarithmic) : log_(logarithmic) {
  if (values.empty()) {
    if (log_) low_ = 0, high_ = 1;
    return;
  }
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  low_ = log_ ? std::log10(*least) : *least;
  high_ = log_ ? std::log10(*most) : *most;
  const double size = std::max(std::abs(low_), std::abs(high_));
  if (high_ / 2 - low_ / 2 > 1e-12 * size) return;
  // Halving and clamping avoid overflow, so that values of 1e308 can be drawn.
  const double room =
      log_ ? 0.5 : std::clamp(size == 0 ? 1 : 0.05 * size, std::numeric_limits<double>::min(), 1e307);
  constexpr double kLargest = std::numeric_limits<double>::max();
  const double middle = low_ / 2 + high_ / 2;
  low_ = middle < -kLargest + room ? -kLargest : middle - room;
  high_ = middle > kLargest - room ? kLargest : middle + room;
}

double PlotAxis::place(double value) const {
  const double v = log_ ? std::log10(value) : value;
  return std::clamp((v / 2 - low_ / 2) / (high_ / 2 - low_ / 2), 0.0, 1.0);
}

std::vector<PlotAxis::Tick> PlotAxis::decades(std::size_t about) const {
  std::vector<Tick> ticks;
  const int every = std::max(1, static_cast<int>(std::ceil((high_ - low_) / static_cast<double>(about))));
  const int first = static_cast<int>(std::ceil(low_ / every - 1e-9)) * every;
  for (int power = first; power <= high_ + 1e-9; power += every) {
    const double value = std::pow(10.0, power);
    if (value > 0 && std::isfinite(value)) ticks.push_back({value, fmt::format("{:g}", value)});
  }
  if (ticks.size() >= 2) return ticks;
  ticks.clear();
  // Fewer than two powers of ten: use 1, 2 and 5 times them; if these are too few, the two ends.
  for (int power = static_cast<int>(std::floor(low_)); power <= high_; ++power)
    for (const double times : {1.0, 2.0, 5.0}) {
      const double value = times * std::pow(10.0, power);
      const double at = std::log10(value);
      if (at >= low_ - 1e-9 && at <= high_ + 1e-9) ticks.push_back({value, fmt::format("{:g}", value)});
    }
  if (ticks.size() >= 2) return ticks;
  const double low = std::max(std::pow(10.0, low_), std::numeric_limits<double>::denorm_min());
  const double high = std::min(std::pow(10.0, high_), std::numeric_limits<double>::max());
  int digits = 3;  // enough to tell the two apart
  while (digits < 15 && fmt::format("{:.{}g}", low, digits) == fmt::format("{:.{}g}", high, digits)) ++digits;
  return {{low, fmt::format("{:.{}g}", low, digits)}, {high, fmt::format("{:.{}g}", high, digits)}};
}

std::vector<PlotAxis::Tick> PlotAxis::round_steps(std::size_t about) const {
  const double raw = 2 * ((high_ / 2 - low_ / 2) / static_cast<double>(about));
  const double unit = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * unit;
  for (const double times : {5.0, 2.0, 1.0})
    if (times * unit >= raw) step = times * unit;
  if (!std::isfinite(step) || step <= 0) return {{low_, fmt::format("{:g}", low_)}};
  std::vector<Tick> ticks;
  const double first = std::ceil(low_ / step - 1e-9), last = std::floor(high_ / step + 1e-9);
  const auto count = static_cast<std::size_t>(std::clamp(last - first + 1, 0.0, 1000.0));
  for (std::size_t i = 0; i < count; ++i) {
    const double value = (first + static_cast<double>(i)) * step;
    if (std::isfinite(value)) ticks.push_back({value, tick_text(value, step)});
  }
  return ticks;
}

std::vector<PlotAxis::Tick> PlotAxis::ticks(std::size_t about) const {
  return log_ ? decades(about) : round_steps(about);
}

bool drawable(const Plot& plot, PlotPoint p) {
  return std::isfinite(p.x) && std::isfinite(p.y) && (!plot.log_x || p.x > 0) && (!plot.log_y || p.y > 0) &&
         p.y <= plot.y_most;
}

DrawnPlot::DrawnPlot(const Plot& plot)
    : x(values(plot, &PlotPoint::x), plot.log_x), y(values(plot, &PlotPoint::y), plot.log_y) {
  for (const PlotLine& line : plot.lines) {
    std::vector<std::vector<PlotPoint>> pieces(1);
    for (const PlotPoint p : line.points) {
      if (drawable(plot, p))
        pieces.back().push_back({x.place(p.x), y.place(p.y)});
      else if (!pieces.back().empty())
        pieces.emplace_back();
    }
    lines.push_back(std::move(pieces));
  }
}

std::vector<double> DrawnPlot::values(const Plot& plot, double PlotPoint::*of) {
  std::vector<double> all;
  for (const PlotLine& line : plot.lines)
    for (const PlotPoint p : line.points)
      if (drawable(plot, p)) all.push_back(p.*of);
  return all;
}

std::size_t left_out(const Plot& plot) {
  std::size_t count = 0;
  for (const PlotLine& line : plot.lines)
    for (const PlotPoint p : line.points) count += drawable(plot, p) ? 0 : 1;
  return count;
}

std::string left_out_text(const Plot& plot) {
  const std::size_t count = left_out(plot);
  if (count == 0) return "";
  std::string why = "not finite";
  if (plot.log_x || plot.log_y) why += ", or not above 0 on a logarithmic axis";
  if (plot.y_most < std::numeric_limits<double>::max()) why += fmt::format(", or above {:.4g}", plot.y_most);
  return fmt::format("{} not drawn: {}", counted(count, "point"), why);
}

std::string plot_text(const Plot& plot, std::size_t columns, std::size_t rows) {
  columns = std::max<std::size_t>(columns, 30);
  rows = std::max<std::size_t>(rows, 4);
  const DrawnPlot drawn(plot);
  const std::vector<PlotAxis::Tick> y_ticks = drawn.y.ticks(rows / 3);
  std::size_t widest = 0;
  for (const PlotAxis::Tick& tick : y_ticks) widest = std::max(widest, tick.text.size());
  const std::size_t margin = widest + 2;  // a blank and the axis
  Canvas canvas(columns - margin, rows);
  for (std::size_t i = 0; i < drawn.lines.size(); ++i)
    for (const auto& piece : drawn.lines[i])
      for (std::size_t p = 0; p < piece.size(); ++p)
        canvas.join(piece[p == 0 ? 0 : p - 1], piece[p], letter_of(i));

  std::string text;
  if (!plot.title.empty()) text += shortened(printable(plot.title), columns) + "\n";
  text += shortened(printable(plot.y_label), columns) + "\n";
  for (std::size_t row = 0; row < rows; ++row) {
    std::string label;
    for (const PlotAxis::Tick& tick : y_ticks)
      if (canvas.row(drawn.y.place(tick.value)) == row) label = tick.text;
    std::string line = fmt::format("{:>{}} {}{}", label, widest, label.empty() ? '|' : '+', canvas.line(row));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  text += fmt::format("{:{}}+{:-<{}}\n", "", margin - 1, "", columns - margin);
  text += labels_under(drawn.x, canvas, margin, columns) + "\n";
  const std::string x_label = shortened(printable(plot.x_label), columns);
  text += fmt::format("{:{}}{}\n", "", columns - screen_width(x_label), x_label);
  text += legend_text(plot, columns);
  if (const std::string note = left_out_text(plot); !note.empty()) text += "  " + note + "\n";
  return text;
}

}  // namespace truemax
