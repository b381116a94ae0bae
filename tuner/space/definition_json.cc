// SPDX-License-Identifier: Apache-2.0
#include "tuner/space/definition_json.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/expression/operators.h"
#include "tuner/expression/python_list.h"

namespace tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxParams = 64;
constexpr size_t kMaxValues = 65536;
constexpr size_t kMaxConstraints = 1024;

// The first member of `object` with one of these names, or null.
const Json* Member(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto it = object.find(name);
    if (it != object.end()) return &*it;
  }
  return nullptr;
}

absl::Status Wrong(absl::string_view where, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", what));
}

class DefinitionReader {
 public:
  absl::StatusOr<SpaceDefinition> Read(const Json& root) && {
    if (!root.is_object()) return Wrong("space definition", "a JSON object is needed");
    const Json* t1 = Member(root, {"ConfigurationSpace"});
    const Json& space = t1 != nullptr && t1->is_object() ? *t1 : root;
    const Json* params = Member(space, {"parameters", "tune_params", "TuningParameters"});
    if (params == nullptr || !(params->is_array() || params->is_object())) {
      return Wrong("space definition",
                   "no params: a member 'parameters' or 'tune_params' is needed, a list of "
                   "{\"name\": ..., \"values\": [...]} or an object of lists");
    }
    if (params->size() > kMaxParams) {
      return Wrong("parameters", absl::StrCat("at most ", kMaxParams, ", not ", params->size()));
    }
    RETURN_IF_ERROR(params->is_object() ? ReadParamObject(*params) : ReadParamList(*params));
    const Json* constraints = Member(space, {"constraints", "restrictions", "Conditions"});
    if (constraints != nullptr) RETURN_IF_ERROR(ReadConstraints(*constraints));
    return std::move(definition_);
  }

 private:
  absl::Status ReadParamObject(const Json& params) {
    for (const auto& [name, values] : params.items()) RETURN_IF_ERROR(AddParam(name, values));
    return absl::OkStatus();
  }

  absl::Status ReadParamList(const Json& params) {
    for (size_t i = 0; i < params.size(); ++i) {
      const std::string where = absl::StrCat("parameter ", i + 1);
      if (!params[i].is_object()) return Wrong(where, "an object with name and values is needed");
      const Json* name = Member(params[i], {"name", "Name"});
      const Json* values = Member(params[i], {"values", "Values"});
      if (name == nullptr || !name->is_string()) return Wrong(where, "it has no 'name'");
      if (values == nullptr) return Wrong(where, "it has no 'values'");
      RETURN_IF_ERROR(AddParam(name->get_ref<const std::string&>(), *values));
    }
    return absl::OkStatus();
  }

  absl::Status AddParam(const std::string& name, const Json& values) {
    const std::string where = absl::StrCat("parameter '", name, "'");
    const bool is_name = !name.empty() && !absl::ascii_isdigit(name[0]) &&
                         std::all_of(name.begin(), name.end(),
                                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
    if (!is_name || IsReservedName(name)) {
      return Wrong(where, "not a name: letters, digits and '_', and no word of the language");
    }
    if (!names_.insert(name).second) return Wrong(where, "it is there twice");
    SpaceParam param = {name, {}};
    if (values.is_string()) {
      absl::StatusOr<std::vector<Value>> read =
          ParsePythonList(values.get_ref<const std::string&>());
      if (!read.ok()) return Wrong(where, read.status().message());
      param.values = *std::move(read);
    } else if (values.is_array()) {
      for (const Json& value : values) {
        ASSIGN_OR_RETURN(Value read, ReadValue(where, value));
        param.values.push_back(std::move(read));
      }
    } else {
      return Wrong(where, "its values are not a list");
    }
    if (param.values.empty() || param.values.size() > kMaxValues) {
      return Wrong(where,
                   absl::StrCat(param.values.size(), " values; 1 to ", kMaxValues, " will do"));
    }
    std::set<std::string> seen;
    for (const Value& value : param.values) {
      const std::string text = absl::StrCat(value.index(), ToText(value));
      if (!seen.insert(text).second) {
        return Wrong(where, absl::StrCat("the value ", ToText(value), " is there twice"));
      }
    }
    definition_.params.push_back(std::move(param));
    return absl::OkStatus();
  }

  static absl::StatusOr<Value> ReadValue(const std::string& where, const Json& value) {
    if (value.is_boolean()) return Value(value.get<bool>());
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) {
      return Wrong(where, absl::StrCat(value.dump(), " does not fit 64 bits"));
    }
    if (value.is_number_integer()) return Value(value.get<int64_t>());
    if (value.is_number_float()) return Value(value.get<double>());
    if (value.is_string()) return Value(value.get_ref<const std::string&>());
    return Wrong(
        where, absl::StrCat("a value is a number, a boolean or a string, not ", value.type_name()));
  }

  absl::Status ReadConstraints(const Json& constraints) {
    if (constraints.is_string()) return AddConstraint("constraint 1", constraints);
    if (!constraints.is_array()) return Wrong("constraints", "a list of strings is needed");
    if (constraints.size() > kMaxConstraints) {
      return Wrong("constraints",
                   absl::StrCat("at most ", kMaxConstraints, ", not ", constraints.size()));
    }
    for (size_t i = 0; i < constraints.size(); ++i) {
      RETURN_IF_ERROR(AddConstraint(absl::StrCat("constraint ", i + 1), constraints[i]));
    }
    return absl::OkStatus();
  }

  absl::Status AddConstraint(const std::string& where, const Json& constraint) {
    const Json* text = &constraint;
    if (constraint.is_object()) text = Member(constraint, {"expr", "expression", "Expression"});
    if (text == nullptr || !text->is_string()) {
      return Wrong(where, "a string is needed, or an object with 'expr'");
    }
    const std::string& expression = text->get_ref<const std::string&>();
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(expression), "lambda")) {
      return Wrong(where, absl::StrCat("'", expression, "' is a Python lambda: write it as an ",
                                       "expression over the params, \"BX * BY <= 1024\""));
    }
    absl::StatusOr<Expression> parsed = Expression::Parse(expression);
    if (!parsed.ok()) return Wrong(where, parsed.status().message());
    if (absl::Status status = parsed->CheckNames(names_); !status.ok()) {
      return Wrong(where, status.message());
    }
    definition_.constraints.push_back({*std::move(parsed), absl::StrCat("'", expression, "'")});
    return absl::OkStatus();
  }

  SpaceDefinition definition_;
  std::set<std::string> names_;
};

}  // namespace

absl::StatusOr<SpaceDefinition> ParseSpaceDefinition(std::string_view json) {
  const Json root = Json::parse(json, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return Wrong("space definition", "not JSON");
  return DefinitionReader().Read(root);
}

}  // namespace tune
