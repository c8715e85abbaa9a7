// SPDX-License-Identifier: Apache-2.0
//
// Slices: work that a server does in several calls, segment by segment. Pure functions.
#ifndef QUIRE_CLIENT_SLICES_H_
#define QUIRE_CLIENT_SLICES_H_

#include <string_view>

#include "client/reply.h"
#include "quire/status.h"

namespace quire::internal {

/// Adds a slice to `progress`, and has `request` ask for the next one. DATA_LOSS for a reply whose
/// slice does not end behind its beginning, or beyond the last segment.
template <typename Request, typename Reply, typename Progress>
Status TakeSlice(std::string_view method, const Reply& reply, Request* request,
                 Progress* progress) {
  if (reply.next_segment() <= request->first_segment() ||
      reply.next_segment() > reply.num_segments()) {
    return BadReply(method, "its slice ends at segment ", reply.next_segment());
  }
  progress->segments_done = reply.next_segment();
  progress->num_segments = reply.num_segments();
  progress->bytes_done += reply.bytes();
  progress->segments_not_fitting += reply.segments_not_fitting();
  progress->segments_in_dram = reply.segments_in_dram();
  request->set_first_segment(reply.next_segment());
  return OkStatus();
}

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_SLICES_H_
