# Every folder of templates/ is a language's kernel to start from, and is compiled in as text. Adding
# one touches no C++, so its files are found.
file(GLOB files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS templates/*/*)
set(declarations)
set(rows)
foreach(file ${files})
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(language ${folder} NAME)
  get_filename_component(file_name ${file} NAME)
  string(MAKE_C_IDENTIFIER "${file}" symbol)
  tune_embed(cli ${file} ${symbol})
  string(APPEND declarations "extern const std::string_view ${symbol};\n")
  string(APPEND rows "    {\"${language}\", \"${file_name}\", &embedded::${symbol}},\n")
endforeach()

file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/template_files.cc @ONLY CONTENT
"#include \"client/cli/template_files.h\"

namespace tune {
namespace embedded {
@declarations@}  // namespace embedded

namespace client {

const TemplateFile* TemplateFiles() {
  static constexpr TemplateFile files[] = {
@rows@    {nullptr, nullptr, nullptr},
  };
  return files;
}

}  // namespace client
}  // namespace tune
")
target_sources(cli PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/template_files.cc)
