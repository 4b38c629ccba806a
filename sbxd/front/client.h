#ifndef SBX_FRONT_CLIENT_H
#define SBX_FRONT_CLIENT_H

/* What a client says of itself. */

#include <stdint.h>

struct json_object;

/* The capabilities that matter here, of a ClientCapabilities object (NULL: of
 * one who has none).  Unknown ones are ignored: enum sbx_client_can. */
uint32_t client_can(struct json_object *capabilities);
/* enum sbx_mcp_level by its name, SBX_MCP_NONE when there is none such. */
uint8_t level_find(struct json_object *name);
const char *level_name(uint8_t level);

#endif
