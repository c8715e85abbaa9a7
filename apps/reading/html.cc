// SPDX-License-Identifier: Apache-2.0
#include "apps/reading/html.h"

#include <gumbo.h>
#include <strings.h>

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "apps/reading/text_flow.h"

namespace quire::cli {
namespace {

/// Role of an element in the text.
enum class Flow : uint8_t { kInline, kLine, kParagraph, kItem, kCell, kVerbatim, kDropped };

Flow FlowOf(GumboTag tag) {
  switch (tag) {
    case GUMBO_TAG_HEAD:
    case GUMBO_TAG_SCRIPT:
    case GUMBO_TAG_STYLE:
    case GUMBO_TAG_NOSCRIPT:
    case GUMBO_TAG_TEMPLATE:
    case GUMBO_TAG_IFRAME:
    case GUMBO_TAG_SVG:
    case GUMBO_TAG_MATH:
      return Flow::kDropped;
    case GUMBO_TAG_PRE:
    case GUMBO_TAG_TEXTAREA:
      return Flow::kVerbatim;
    case GUMBO_TAG_P:
    case GUMBO_TAG_BLOCKQUOTE:
    case GUMBO_TAG_FIGURE:
    case GUMBO_TAG_H1:
    case GUMBO_TAG_H2:
    case GUMBO_TAG_H3:
    case GUMBO_TAG_H4:
    case GUMBO_TAG_H5:
    case GUMBO_TAG_H6:
    case GUMBO_TAG_HR:
    case GUMBO_TAG_OL:
    case GUMBO_TAG_UL:
    case GUMBO_TAG_DL:
    case GUMBO_TAG_TABLE:
      return Flow::kParagraph;
    case GUMBO_TAG_LI:
      return Flow::kItem;
    case GUMBO_TAG_TD:
    case GUMBO_TAG_TH:
      return Flow::kCell;
    case GUMBO_TAG_ADDRESS:
    case GUMBO_TAG_ARTICLE:
    case GUMBO_TAG_ASIDE:
    case GUMBO_TAG_BODY:
    case GUMBO_TAG_BR:
    case GUMBO_TAG_CAPTION:
    case GUMBO_TAG_DD:
    case GUMBO_TAG_DETAILS:
    case GUMBO_TAG_DIV:
    case GUMBO_TAG_DT:
    case GUMBO_TAG_FIELDSET:
    case GUMBO_TAG_FIGCAPTION:
    case GUMBO_TAG_FOOTER:
    case GUMBO_TAG_FORM:
    case GUMBO_TAG_HEADER:
    case GUMBO_TAG_LEGEND:
    case GUMBO_TAG_MAIN:
    case GUMBO_TAG_NAV:
    case GUMBO_TAG_OPTION:
    case GUMBO_TAG_SECTION:
    case GUMBO_TAG_SUMMARY:
    case GUMBO_TAG_TR:
      return Flow::kLine;
    default:
      return Flow::kInline;
  }
}

std::span<GumboNode* const> ChildrenOf(const GumboNode& node) {
  const GumboVector& children =
      node.type == GUMBO_NODE_DOCUMENT ? node.v.document.children : node.v.element.children;
  return {reinterpret_cast<GumboNode* const*>(children.data), children.length};
}

bool HasChildren(const GumboNode& node) {
  return node.type == GUMBO_NODE_DOCUMENT || node.type == GUMBO_NODE_ELEMENT ||
         node.type == GUMBO_NODE_TEMPLATE;
}

Flow FlowOf(const GumboNode& node) {
  return node.type == GUMBO_NODE_DOCUMENT ? Flow::kInline : FlowOf(node.v.element.tag);
}

/// A parsed page. All its memory comes from one arena and goes with it: gumbo frees nodes by
/// recursion, which deep pages cannot afford.
class Page {
 public:
  explicit Page(std::string_view html) {
    GumboOptions options = kGumboDefaultOptions;
    options.allocator = [](void* arena, size_t bytes) {
      return static_cast<std::pmr::monotonic_buffer_resource*>(arena)->allocate(bytes);
    };
    options.deallocator = [](void*, void*) {};
    options.userdata = &arena_;
    options.max_errors = 0;
    document_ = gumbo_parse_with_options(&options, html.data(), html.size())->document;
  }

  /// Calls `enter` for each node in order of the text, and `leave` after its children. `enter`
  /// returns false to pass over the children.
  template <typename Enter, typename Leave>
  void Walk(const Enter& enter, const Leave& leave) const {
    struct Place {
      const GumboNode* node;
      size_t next;
    };
    std::vector<Place> path;
    const auto visit = [&](const GumboNode* node) {
      if (enter(*node) && HasChildren(*node)) path.push_back({node, 0});
    };
    visit(document_);
    while (!path.empty()) {
      Place& place = path.back();
      const auto children = ChildrenOf(*place.node);
      if (place.next < children.size()) {
        visit(children[place.next++]);
      } else {
        leave(*place.node);
        path.pop_back();
      }
    }
  }

 private:
  std::pmr::monotonic_buffer_resource arena_;
  const GumboNode* document_;
};

/// An encoding that a page declares, and where.
struct Declared {
  std::string encoding;
  size_t offset = 0;
};

/// Encoding in the value of `charset` or `content` of a meta element.
std::optional<std::string> EncodingIn(const GumboAttribute& attribute) {
  std::string_view value = attribute.value;
  if (strcasecmp(attribute.name, "content") == 0) {
    constexpr std::string_view kKey = "charset=";
    const auto same = [](char a, char b) { return (a | 32) == (b | 32); };
    const auto* const at = std::search(value.begin(), value.end(), kKey.begin(), kKey.end(), same);
    if (at == value.end()) return std::nullopt;
    value.remove_prefix(static_cast<size_t>(at - value.begin()) + kKey.size());
  } else if (strcasecmp(attribute.name, "charset") != 0) {
    return std::nullopt;
  }
  const size_t end = value.find_first_of(" ;\"'");
  return std::string(value.substr(0, end));
}

std::optional<Declared> DeclaredEncoding(const Page& page) {
  std::optional<Declared> declared;
  page.Walk(
      [&](const GumboNode& node) {
        if (declared || node.type != GUMBO_NODE_ELEMENT) return !declared && HasChildren(node);
        if (node.v.element.tag != GUMBO_TAG_META) return true;
        const GumboVector& attributes = node.v.element.attributes;
        for (GumboAttribute* const attribute : std::span(
                 reinterpret_cast<GumboAttribute* const*>(attributes.data), attributes.length)) {
          const auto encoding = EncodingIn(*attribute);
          if (encoding) declared = {*encoding, node.v.element.start_pos.offset};
        }
        return true;
      },
      [](const GumboNode&) {});
  return declared;
}

bool IsUtf8Name(const std::string& encoding) {
  return strcasecmp(encoding.c_str(), "utf-8") == 0 || strcasecmp(encoding.c_str(), "utf8") == 0;
}

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<signed char>(c) >= 0; });
}

Status CheckDeclared(const Page& page, std::string_view html) {
  if (IsAscii(html)) return OkStatus();
  const auto declared = DeclaredEncoding(page);
  if (!declared || IsUtf8Name(declared->encoding)) return OkStatus();
  return InvalidArgument("the page declares the encoding ", declared->encoding, " at byte ",
                         declared->offset, ", but is UTF-8; correct the declaration");
}

/// Writes a page's nodes.
class Writer {
 public:
  bool Enter(const GumboNode& node) {
    if (!HasChildren(node)) {
      AddText(node);
      return false;
    }
    const Flow flow = FlowOf(node);
    if (flow == Flow::kDropped) return false;
    Begin(flow);
    return true;
  }
  void Leave(const GumboNode& node) {
    const Flow flow = FlowOf(node);
    if (flow == Flow::kVerbatim) --verbatim_;
    if (flow == Flow::kCell) {
      flow_.Separate("\t");
    } else {
      flow_.Break(LinesAround(flow));
    }
  }
  std::string Finish() { return flow_.Finish(); }

 private:
  static size_t LinesAround(Flow flow) {
    switch (flow) {
      case Flow::kParagraph:
      case Flow::kVerbatim:
        return 2;
      case Flow::kLine:
      case Flow::kItem:
        return 1;
      default:
        return 0;
    }
  }
  void Begin(Flow flow) {
    flow_.Break(LinesAround(flow));
    if (flow == Flow::kVerbatim) ++verbatim_;
    if (flow == Flow::kItem) flow_.AddVerbatim("- ");
  }
  void AddText(const GumboNode& node) {
    if (node.type == GUMBO_NODE_COMMENT) return;
    if (verbatim_ > 0) {
      flow_.AddVerbatim(node.v.text.text);
    } else {
      flow_.AddWords(node.v.text.text);
    }
  }

  TextFlow flow_;
  int verbatim_ = 0;  ///< Verbatim elements around.
};

}  // namespace

StatusOr<std::string> HtmlToText(std::string_view html) {
  const Page page(html);
  QUIRE_RETURN_IF_ERROR(CheckDeclared(page, html));
  Writer writer;
  page.Walk([&](const GumboNode& node) { return writer.Enter(node); },
            [&](const GumboNode& node) { writer.Leave(node); });
  return writer.Finish();
}

}  // namespace quire::cli
