// SPDX-License-Identifier: Apache-2.0
// The frame, colours and text that all our SVG pictures share.
#pragma once

#include <string>

#include "client/report/svg_chart.h"

namespace tune::client {

inline constexpr double kFontPx = 12;
inline constexpr double kPadding = 16;         // of a picture, on each side
inline constexpr double kSecondsPerNs = 1e-9;  // axes of time are in seconds

// The <style> that every picture has, and the attribute by which it fits its place. A page has both
// once in its own style.
std::string PictureStyle();
inline constexpr char kPictureSize[] = " style=\"max-width:100%;height:auto\"";

// About how wide a text is; SVG has no way to ask.
double TextWidthPx(const std::string& text, double font_px = kFontPx);

// "s0" to "s7", or "sn": the class that gives an element its `currentColor`.
std::string SeriesClass(Series series);

// Opens <svg> with its style, accessible name and surface; draws title and subtitle.
std::string SvgHead(int width, int height, const std::string& title, const std::string& subtitle,
                    const std::string& description);

// The top of the body, below title and subtitle.
double BodyTop(const std::string& title, const std::string& subtitle);

enum class Anchor { kStart, kMiddle, kEnd };

// <text> of class `css`; `degrees` turns it round its anchor.
std::string SvgText(double x, double y, const std::string& text, const std::string& css,
                    Anchor anchor = Anchor::kStart, double degrees = 0);

}  // namespace tune::client
