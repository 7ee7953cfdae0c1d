// A reply that is sent whole, of any dialect.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/collected_reply.h"
#include "server/reply_writer.h"
#include "server/response_stream.h"

namespace slotstream::server {

// Sends one JSON object. When it takes long the head goes out early, followed by white space from
// time to time, which JSON allows before a value and which keeps clients waiting; an error after
// that comes with status 200.
class PlainReply : public ReplyWriter {
 public:
  // The JSON of the answer.
  using Format =
      std::function<std::string(const CollectedReply&, const generate::GenerationResult&)>;

  PlainReply(std::shared_ptr<ResponseStream> response, ErrorForm errors, Format format)
      : response_(std::move(response)), errors_(errors), format_(std::move(format)) {}

  void Begin(const PromptCount&) override {}
  void Event(const generate::ReplyEvent& event) override { reply_.Add(event); }
  void Token(const generate::ChosenToken& token) override;
  void KeepAlive() override;
  void End(const generate::GenerationResult& result) override;
  void Fail(const ApiError& error) override;

 private:
  void Finish(const HttpResponse& whole);

  std::shared_ptr<ResponseStream> response_;
  ErrorForm errors_;
  Format format_;
  CollectedReply reply_;
};

}  // namespace slotstream::server
