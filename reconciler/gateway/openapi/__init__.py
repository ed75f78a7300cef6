"""The OpenAPI document of the gateway, made from its tables of paths and errors and from the documents' schemas.

`document` is heavy to import, since the schemas are made from shapes; `endpoint` is not.
"""
