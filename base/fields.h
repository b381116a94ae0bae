// SPDX-License-Identifier: Apache-2.0
// The list of a noun's fields, written once beside the noun. The mappings of nouns to the wire
// (server/wire/codec.h) and to SQL (db/columns.h) read the list: its names are those of the
// messages' fields and of the tables' columns.
//
//   TUNE_FIELDS(Telemetry, sm_clock_mhz, power_mw);
//
// The list is complete: a field that is missing or listed twice does not compile.
#pragma once

#include <type_traits>

namespace tune {

template <typename Noun, typename Member>
struct Field {
  const char* name;
  Member Noun::*member;
};

template <typename Noun>
concept HasFields = requires {
  UseFieldsOf(static_cast<const Noun*>(nullptr), [](const auto&...) {});
};

// Calls visit(name, value) for each field, in the order of the list. Noun may be const.
template <typename Noun, typename Visit>
void ForEachField(Noun& noun, Visit&& visit) {
  UseFieldsOf(static_cast<const std::remove_const_t<Noun>*>(nullptr),
              [&](const auto&... field) { (visit(field.name, noun.*field.member), ...); });
}

}  // namespace tune

#define TUNE_FIELDS(Noun, ...)                                                                  \
  template <typename Use>                                                                       \
  constexpr void UseFieldsOf(const Noun*, const Use& use) {                                     \
    use(TUNE_EXPAND_(TUNE_FIELD_(Noun, __VA_ARGS__)));                                          \
  }                                                                                             \
  [[maybe_unused]] inline void HasTheseFields(const Noun& noun) { /* as many, by their names */ \
    [[maybe_unused]] const auto& [__VA_ARGS__] = noun;                                          \
  }                                                                                             \
  static_assert(true)

// Applies itself to the first name and then, by way of rescanning, to the others.
#define TUNE_FIELD_(Noun, name, ...)         \
  ::tune::Field<Noun, decltype(Noun::name)>{ \
      #name, &Noun::name} __VA_OPT__(, TUNE_FIELD_AGAIN_ TUNE_NOTHING_()(Noun, __VA_ARGS__))
#define TUNE_FIELD_AGAIN_() TUNE_FIELD_
#define TUNE_NOTHING_
#define TUNE_EXPAND_(...) TUNE_EXPAND_16_(TUNE_EXPAND_16_(__VA_ARGS__))
#define TUNE_EXPAND_16_(...) \
  TUNE_EXPAND_4_(TUNE_EXPAND_4_(TUNE_EXPAND_4_(TUNE_EXPAND_4_(__VA_ARGS__))))
#define TUNE_EXPAND_4_(...) \
  TUNE_EXPAND_1_(TUNE_EXPAND_1_(TUNE_EXPAND_1_(TUNE_EXPAND_1_(__VA_ARGS__))))
#define TUNE_EXPAND_1_(...) __VA_ARGS__
