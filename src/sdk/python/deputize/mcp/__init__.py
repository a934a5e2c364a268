"""Guards the tools of MCP servers, and proves the calls of MCP clients."""

from .guarded_calls import current_authority
from .rules import OpenTool, ScopedTool, ToolRule, ToolRules
from .wire import AUTHORITY

__all__ = ["AUTHORITY", "OpenTool", "ScopedTool", "ToolRule", "ToolRules", "current_authority"]
