// The dialects' routes, one function a file of its own.
#pragma once

#include "server/router.h"
#include "server/service.h"

namespace slotstream::server {

// `service` must outlive the router.
void AddOpenAiChatRoutes(Router& router, Service& service);        // /v1/chat/completions
void AddOpenAiCompletionRoutes(Router& router, Service& service);  // /v1/completions
void AddOpenAiModelRoutes(Router& router, Service& service);       // /v1/models, /v1/embeddings

}  // namespace slotstream::server
