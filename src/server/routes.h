// The dialects' routes, one function a file of its own.
#pragma once

#include "server/router.h"
#include "server/service.h"

namespace slotstream::server {

// `service` must outlive the router.
void AddOpenAiChatRoutes(Router& router, Service& service);        // /v1/chat/completions
void AddOpenAiCompletionRoutes(Router& router, Service& service);  // /v1/completions
void AddOpenAiModelRoutes(Router& router, Service& service);       // /v1/models, /v1/embeddings
void AddResponsesRoutes(Router& router, Service& service);         // /v1/responses
void AddOllamaGenerationRoutes(Router& router, Service& service);  // /api/chat, /api/generate
void AddOllamaModelRoutes(Router& router, Service& service);       // /api/tags and its like
void AddAnthropicRoutes(Router& router, Service& service);         // /v1/messages
void AddOperationRoutes(Router& router, Service& service);         // /health, /metrics and the like
void AddPageRoute(Router& router);                                 // /

}  // namespace slotstream::server
