// SPDX-License-Identifier: Apache-2.0
//
// CalibrateOnQuestions: calibrates FreeKV's threshold on questions (calibrate_threshold.h). At the
// result, a model corrects as many heads as trained models do at the published threshold.
#ifndef QUIRE_BENCH_ANSWERS_ANSWERS_CALIBRATION_H_
#define QUIRE_BENCH_ANSWERS_ANSWERS_CALIBRATION_H_

#include <span>

#include "apps/kit/worker/local_worker.h"
#include "bench/answers/question_sets.h"
#include "quire/client.h"
#include "quire/status.h"

namespace quire::bench {

/// Returns the threshold at which about kCorrectedShare of the KV heads are corrected. It asks the
/// first few questions of every set under a budget of 12.5 %, and stores their documents. Recalls
/// that block at any threshold do not count: first steps of sequences, and steps in which
/// everything fits.
StatusOr<float> CalibrateOnQuestions(const cli::LocalWorker& local, Client& client,
                                     std::span<const AskedDocument> documents);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_ANSWERS_CALIBRATION_H_
