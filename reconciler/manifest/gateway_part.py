"""The keys of `gateway:`."""

from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, Tag

from reconciler.manifest import fields as f
from reconciler.manifest import gateway_fields as g
from reconciler.manifest.applied import Scope
from reconciler.manifest.parts import Part, written


class ApiKeyFile(Part):
    """API keys kept out of the manifest."""

    file: f.PathText = Field(
        description="File with one key a line, relative to the manifest file: `KEY`, or "
        "`KEY scopes=infer,read name=phone priority=low`; empty lines and lines that begin with # are left out. "
        "Saving it applies it."
    )


class ApiKeyVariable(Part):
    """API keys from the environment."""

    env: g.Variable = Field(
        description="Variable with one key a line as in a file of keys, or keys with commas between them. It is read "
        "with the manifest, and no model's process gets it."
    )


class ApiKeyEntry(Part):
    """One API key and what it allows."""

    key: f.ApiKey = Field(
        repr=False, description="The key itself. Better kept in a file: a manifest goes into git."
    )
    name: g.KeyName | None = Field(default=None, description="How it is called in logs and errors.")
    scopes: Annotated[tuple[g.ScopeField, ...], Field(strict=False, min_length=1)] = Field(
        default=tuple(Scope),
        description="What it allows: requests to models (infer), status and lists (read), loading, evicting, leases "
        "and stopping (admin). Default: everything.",
    )
    priority: f.Priority | None = Field(
        default=None,
        description="The urgency of its requests where several wait, as a model's `priority`. Default: the model's.",
    )


def _key_form(value: object) -> str:
    if isinstance(value, ApiKeyVariable) or (
        isinstance(value, dict) and "env" in value and "file" not in value
    ):
        return "=env"
    return "=file" if isinstance(value, dict | ApiKeyFile) else "=list"


def _item_form(value: object) -> str:
    return "=entry" if isinstance(value, dict | ApiKeyEntry) else "=key"


ApiKeyItem = Annotated[
    Annotated[ApiKeyEntry, Tag("=entry")] | Annotated[f.ApiKey, Tag("=key")], Discriminator(_item_form)
]
ApiKeys = Annotated[
    Annotated[ApiKeyFile, Tag("=file")]
    | Annotated[ApiKeyVariable, Tag("=env")]
    | Annotated[tuple[ApiKeyItem, ...], Field(strict=False, min_length=1), Tag("=list")],
    Discriminator(_key_form),
]


class GateEntry(Part):
    """How many models may compute at once among those that pass this gate."""

    limit: f.Count | None = Field(default=None, description="Requests that may be at engines at once.")
    above: f.Size | None = Field(
        default=None,
        description="Size of the weights from which a model passes it unless it names its gates itself.",
    )
    roles: Annotated[tuple[f.RoleField, ...], Field(strict=False)] | None = Field(
        default=None,
        description="Roles whose models pass it unless they name their gates themselves. Default: those that generate "
        "text if `above` is given, else none.",
    )


GateOrNothing = Annotated[GateEntry | None, BeforeValidator(g.or_nothing)]


class Gateway(Part):
    """The one address clients use."""

    listen: f.Listen = written(
        "127.0.0.1:8080",
        description="Address and port (`127.0.0.1:8080`, `[::1]:8080`; port 0 = any free one). Anything but loopback "
        "needs `api_keys`. A change takes effect when reconcile is started again.",
    )
    api_keys: ApiKeys | None = Field(
        default=None,
        repr=False,
        description="Keys of which a client must send one as `Authorization: Bearer KEY`: `{file: keys.txt}`, "
        "`{env: NAME}` or a list. Without it no key is asked for. Apply at once.",
    )
    hosts: Annotated[tuple[f.HostName, ...], Field(strict=False)] = Field(
        default=(),
        description="Names accepted in the `Host` header besides the loopback ones, without a port.",
    )
    origins: Annotated[tuple[f.Origin, ...], Field(strict=False)] = Field(
        default=(), description="Browser origins that may call, for example `https://chat.example.org`."
    )
    max_body: g.BodySize = written(
        "64MiB", description="Size of a request's body at most, 1MiB to 2GiB. Applies at once."
    )
    max_connections: g.Connections = Field(
        default=4096, description="Clients connected at most; further ones are told so. Applies at once."
    )
    comments: g.Flag = Field(
        default=False,
        description="Whether streams that wait get comments that say what for, so that clients with short timeouts "
        "stay. Applies at once.",
    )
    gates: dict[g.GateName, GateOrNothing] = Field(
        default_factory=dict,
        description="How many requests are at engines at once, over all models that pass a gate. There are `heavy` "
        "(limit 1, generating models above 30GB) and `llm` (limit 2, generating models); null removes one of them. "
        "Apply at once.",
    )
