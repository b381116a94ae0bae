# Writes OUT: the text of IN as a string_view NAME. Bytes as numbers, so that no text needs escaping.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "#include <string_view>
namespace tune::embedded {
namespace {
const unsigned char bytes_of_${NAME}[] = {${bytes}0};
}
extern const std::string_view ${NAME};
const std::string_view ${NAME}(reinterpret_cast<const char*>(bytes_of_${NAME}), sizeof(bytes_of_${NAME}) - 1);
}  // namespace tune::embedded
")
