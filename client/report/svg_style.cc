// SPDX-License-Identifier: Apache-2.0
#include "client/report/svg_style.h"

#include <fmt/format.h>

namespace tune::client {
namespace {

constexpr double kTitlePx = 16;

// Series colours keep their order of lightness in both themes, and their neighbours apart for
// colour-blind readers.
constexpr char kStyle[] = R"css(<style>
.tc{font-family:system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;font-size:12px}
.tc .surface{fill:#fcfcfb}.tc .grid{stroke:#e6e5df}.tc .axis{stroke:#b9b8ae}
.tc .t{fill:#52514e}
.tc .tt{fill:#0b0b0b;font-size:16px;font-weight:600}.tc .em{fill:#0b0b0b}
.tc .on{fill:#fff}
.tc .halo{stroke:#fcfcfb;stroke-width:3px;paint-order:stroke;stroke-linejoin:round}
.tc .s0{color:#2a78d6}.tc .s1{color:#e05f26}.tc .s2{color:#148f62}.tc .s3{color:#c98500}
.tc .s4{color:#cf4f80}.tc .s5{color:#4a3aa7}.tc .s6{color:#008300}.tc .s7{color:#d03b3b}
.tc .sn{color:#77766f}
@media (prefers-color-scheme:dark){
.tc .surface{fill:#1a1a19}.tc .grid{stroke:#30302d}.tc .axis{stroke:#57564f}
.tc .t{fill:#c3c2b7}.tc .tt,.tc .em{fill:#fff}.tc .halo{stroke:#1a1a19}
.tc .s0{color:#4b96ee}.tc .s1{color:#ea7441}.tc .s2{color:#2bb184}.tc .s3{color:#dba02d}
.tc .s4{color:#e0719a}.tc .s5{color:#9a8fee}.tc .s6{color:#3fa63f}.tc .s7{color:#ea7272}
.tc .sn{color:#9b9a92}}
</style>
)css";

const char* AnchorText(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart:
      return "start";
    case Anchor::kMiddle:
      return "middle";
    case Anchor::kEnd:
      return "end";
  }
  return "start";
}

}  // namespace

std::string PictureStyle() { return kStyle; }

double TextWidthPx(const std::string& text, double font_px) {
  size_t characters = 0;
  for (unsigned char byte : text) characters += (byte & 0xC0) != 0x80;  // of UTF-8
  return 0.56 * font_px * static_cast<double>(characters);
}

std::string SeriesClass(Series series) {
  return series < 0 ? "sn" : fmt::format("s{}", series % 8);
}

std::string SvgText(double x, double y, const std::string& text, const std::string& css,
                    Anchor anchor, double degrees) {
  const std::string turned =
      degrees == 0 ? "" : fmt::format(" transform=\"rotate({:.1f} {:.1f} {:.1f})\"", degrees, x, y);
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, css,
      AnchorText(anchor), turned, EscapeXml(text));
}

double BodyTop(const std::string& title, const std::string& subtitle) {
  return kPadding + (title.empty() ? 0 : kTitlePx + 6) + (subtitle.empty() ? 0 : kFontPx + 6);
}

std::string SvgHead(int width, int height, const std::string& title, const std::string& subtitle,
                    const std::string& description) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tc\" viewBox=\"0 0 {0} {1}\" "
      "width=\"{0}\" "
      "height=\"{1}\"{5} role=\"img\">\n<title>{2}</title>\n"
      "<desc>{3}</desc>\n{4}<rect class=\"surface\" width=\"{0}\" height=\"{1}\" rx=\"8\"/>\n",
      width, height, EscapeXml(title), EscapeXml(description), kStyle, kPictureSize);
  double y = kPadding;
  if (!title.empty()) out += SvgText(kPadding, y += kTitlePx - 2, title, "tt");
  if (!subtitle.empty()) out += SvgText(kPadding, y += kFontPx + 6, subtitle, "t");
  return out;
}

}  // namespace tune::client
