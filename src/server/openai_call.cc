#include "server/openai_call.h"

#include <ctime>
#include <utility>

#include "server/generating_route.h"
#include "server/plain_reply.h"

namespace slotstream::server {

void ReadDelivery(Fields& fields, OpenAiCall& call) {
  call.model = fields.String("model").value_or("");
  call.stream = fields.Bool("stream").value_or(false);
  if (const Json* options = fields.Object("stream_options")) {
    call.include_usage = Fields(*options).Bool("include_usage").value_or(false);
  }
}

void AnswerOpenAiCall(Service& service, const HttpRequest& request,
                      const std::shared_ptr<ResponseStream>& response, OpenAiCall call,
                      const OpenAiForms& forms) {
  OpenAiReplyOptions options;
  options.identity = {service.ids().Next(forms.id_prefix), service.ServedName(call.model),
                      std::time(nullptr)};
  options.include_usage = call.include_usage;
  if (call.request.alternatives) options.tokenizer = service.tokenizer();
  ReadHints(request, call.request);
  GenerationCall generation{std::move(call.request), nullptr, response, RequestKey(request)};
  if (call.stream) {
    generation.writer = forms.stream(response, std::move(options));
  } else {
    generation.writer = std::make_unique<PlainReply>(
        response, ErrorForm::kOpenAi,
        [options = std::move(options), whole = forms.whole](
            const CollectedReply& reply, const generate::GenerationResult& result) {
          return whole(options, reply, result);
        });
  }
  service.Generate(std::move(generation));
}

}  // namespace slotstream::server
