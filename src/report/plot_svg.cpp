#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "report/drawn.hpp"
#include "report/plot.hpp"
#include "report/table.hpp"

namespace truemax {
namespace {

// All lengths in pixels.
constexpr double kPanelWidth = 520, kLeft = 70, kRight = 16, kTop = 40, kPlotHeight = 260, kBelow = 52;
constexpr double kLegendLine = 18, kCharacter = 6.6, kKey = 26, kGap = 14;

// Distinguishable with common kinds of colour blindness, on white and on black.
constexpr std::array kLight{"#0072b2", "#d55e00", "#009e73", "#b0569a",
                            "#8a6d00", "#2596be", "#444444", "#a01c2c"};
constexpr std::array kDark{"#56b4e9", "#ff8a3d", "#2fd3a4", "#e59ccb",
                           "#f0e442", "#8fd3ff", "#c8c8c8", "#ff7f8a"};
static_assert(kLight.size() == kDark.size());
constexpr std::array kDashes{"", "6 3", "2 3", "8 3 2 3"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

std::string style() {
  std::string css =
      "svg{background:#fff;color:#222;font:12px sans-serif}text{fill:currentColor}.t{font-size:14px;"
      "font-weight:bold}.g{stroke:currentColor;opacity:.15}.b{stroke:currentColor;fill:none;opacity:.5}"
      ".l{fill:none;stroke-width:1.8}";
  const auto colours = [](const auto& list) {
    std::string rules;
    for (std::size_t i = 0; i < list.size(); ++i)
      rules += fmt::format(".c{0}{{stroke:{1}}}.p{0}{{fill:{1}}}", i, list[i]);
    return rules;
  };
  css += colours(kLight);
  css += fmt::format("@media (prefers-color-scheme:dark){{svg{{background:#16181c;color:#e4e4e4}}{}}}",
                     colours(kDark));
  return "<style>" + css + "</style>\n";
}

std::string dash(std::size_t line) {
  const char* dashes = kDashes[line / kLight.size() % kDashes.size()];
  return *dashes == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes);
}

// Places of the legend's entries, relative to the panel's left edge and the legend's first line.
struct Legend {
  std::vector<PlotPoint> at;
  std::size_t lines = 1;

  explicit Legend(const Plot& plot) {
    double x = kLeft;
    for (const PlotLine& line : plot.lines) {
      const double width = kKey + kCharacter * static_cast<double>(screen_width(printable(line.name)));
      if (x > kLeft && x + width > kPanelWidth - kRight) x = kLeft, ++lines;
      at.push_back({x, kLegendLine * static_cast<double>(lines - 1)});
      x += width + kGap;
    }
  }
};

double height_of(const Plot& plot) {
  const std::size_t notes = left_out(plot) > 0 ? 1 : 0;
  return kTop + kPlotHeight + kBelow + kLegendLine * static_cast<double>(Legend(plot).lines + notes);
}

class Panel {
 public:
  Panel(const Plot& plot, double left, double top)
      : plot_(plot), drawn_(plot), x0_(left + kLeft), y0_(top + kTop), left_(left) {}

  std::string to_svg() const {
    std::string out = "<g>\n" + frame();
    for (std::size_t i = 0; i < drawn_.lines.size(); ++i) out += line(i);
    return out + legend() + "</g>\n";
  }

 private:
  static constexpr double kWide = kPanelWidth - kLeft - kRight;
  double x(double share) const { return x0_ + share * kWide; }
  double y(double share) const { return y0_ + (1 - share) * kPlotHeight; }

  static std::string text(double at_x, double at_y, const char* anchor, const std::string& words,
                          const char* more = "") {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", at_x, at_y, anchor,
                       more, escaped(words));
  }
  static std::string grid(double x1, double y1, double x2, double y2) {
    return fmt::format("<line class=\"g\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x1,
                       y1, x2, y2);
  }

  std::string frame() const {
    std::string out = text(x(0), y0_ - 20, "start", plot_.title, " class=\"t\"");
    out += text(x(0), y0_ - 5, "start", plot_.y_label);
    out += text(x(1), y(0) + 36, "end", plot_.x_label);
    out += fmt::format("<rect class=\"b\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
                       x0_, y0_, kWide, kPlotHeight);
    for (const PlotAxis::Tick& tick : drawn_.x.ticks(6)) {
      const double at = x(drawn_.x.place(tick.value));
      out += grid(at, y(0), at, y(1)) + text(at, y(0) + 18, "middle", tick.text);
    }
    for (const PlotAxis::Tick& tick : drawn_.y.ticks(6)) {
      const double at = y(drawn_.y.place(tick.value));
      out += grid(x(0), at, x(1), at) + text(x(0) - 7, at + 4, "end", tick.text);
    }
    return out;
  }

  std::string line(std::size_t i) const {
    const std::size_t colour = i % kLight.size();
    std::string out = fmt::format("<g><title>{}</title>\n", escaped(plot_.lines[i].name));
    for (const auto& piece : drawn_.lines[i]) {
      std::string points;
      for (const PlotPoint p : piece)
        points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x(p.x), y(p.y));
      if (piece.size() > 1)
        out += fmt::format("<polyline class=\"l c{}\"{} points=\"{}\"/>\n", colour, dash(i), points);
      for (const PlotPoint p : piece)
        out += fmt::format("<circle class=\"p{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>\n", colour, x(p.x),
                           y(p.y));
    }
    return out + "</g>\n";
  }

  std::string legend() const {
    const Legend places(plot_);
    const double top = y(0) + kBelow + kLegendLine / 2;
    std::string out;
    for (std::size_t i = 0; i < plot_.lines.size(); ++i) {
      const double at_x = left_ + places.at[i].x, at_y = top + places.at[i].y;
      out +=
          fmt::format("<line class=\"l c{}\"{} x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                      i % kLight.size(), dash(i), at_x, at_y, at_x + kKey - 6, at_y);
      out += text(at_x + kKey, at_y + 4, "start", plot_.lines[i].name);
    }
    if (const std::string note = left_out_text(plot_); !note.empty())
      out += text(x(0), top + kLegendLine * static_cast<double>(places.lines) + 4, "start", note);
    return out;
  }

  const Plot& plot_;
  DrawnPlot drawn_;
  double x0_, y0_, left_;
};

}  // namespace

std::string plot_svg(std::span<const Plot> panels) {
  const std::size_t across = panels.size() > 1 ? 2 : 1;
  std::string body, title;
  double top = 0;
  for (std::size_t first = 0; first < panels.size(); first += across) {
    double tallest = 0;
    for (std::size_t i = first; i < std::min(first + across, panels.size()); ++i) {
      body += Panel(panels[i], kPanelWidth * static_cast<double>(i - first), top).to_svg();
      tallest = std::max(tallest, height_of(panels[i]));
      title += (title.empty() ? "" : "; ") + escaped(panels[i].title);
    }
    top += tallest;
  }
  const double width = kPanelWidth * static_cast<double>(across), height = std::max(top, 1.0);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n<title>{2}</title>\n{3}{4}</svg>\n",
      width, height, title, style(), body);
}

}  // namespace truemax
