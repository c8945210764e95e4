// Swagger UI for this service; the key that the live page asked for is sent here, too.

const withKey = (request) => {
  const key = sessionStorage.getItem("pintgn.key");
  if (key) request.headers.Authorization ??= `Bearer ${key}`;
  return request;
};

window.SwaggerUIBundle({
  url: new URL("openapi.json", document.baseURI).href,
  dom_id: "#api",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  requestInterceptor: withKey,
  tryItOutEnabled: true,
});
